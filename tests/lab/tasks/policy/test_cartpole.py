"""REINFORCE on CartPole: episodes as gymnasium plays them, the gradient by hand, runs that can be stopped."""

import math
import sys

import pytest
import torch
from torch import nn

from gaf.lab.engine.config import TaskConfig, override
from gaf.lab.engine.run import train
from gaf.lab.engine.signals import Interrupted
from gaf.lab.study import recipes
from gaf.lab.tasks import load_task
from gaf.lab.tasks.policy import DISCOUNT, cartpole, others_mean, play, to_go
from tests.lab.engine.test_kill import assert_survives_a_kill
from tests.lab.engine.test_train import Kick
from tests.lab.engine.tiny import assert_same_run, last_checkpoint

pytest.importorskip("gymnasium")

RECIPE = recipes.get("cartpole-mlp-sgdm")
CPU = torch.device("cpu")


def task_of(**changes):
    return load_task(TaskConfig(**{**dict(RECIPE.task), **changes}))


def noise_of(source, *indices, seed=0, epoch=0):
    return next(source.batches([torch.tensor(indices)], seed=seed, epoch=epoch, device=CPU))


def test_an_episode_is_the_one_that_gymnasium_plays():
    import gymnasium

    task = task_of()
    torch.manual_seed(0)
    model = task.build_model()
    noise = noise_of(task.train_source(), 3, 99, 7)
    played = play(model, noise)
    assert (noise.starts.abs() <= cartpole.EDGE).all()
    lengths = played.rewards.sum(0).int().tolist()
    assert max(lengths) == len(played.rewards)
    for column, length in enumerate(lengths):
        one = gymnasium.make(cartpole.ID)
        one.reset(seed=0)
        one.unwrapped.state = noise.starts[column].numpy()
        for step in range(length):
            seen, reward, fallen, late, _ = one.step(played.actions[step, column].item())
            assert (reward, fallen, late) == (1.0, step == length - 1, False)
            if not fallen:
                told = played.observations[step + 1, column]
                # the same formula, in another order of operations; 0 was seen
                assert torch.allclose(torch.from_numpy(seen), told, atol=1e-5)


def test_actions_are_drawn_with_the_probabilities_of_the_policy():
    task = task_of(data_options={"episodes": 2000, "steps": 1})
    model = task.build_model()
    nn.init.zeros_(model.head.weight)
    model.head.bias.data = torch.tensor([0.2, 0.8]).log()
    actions = play(model, noise_of(task.train_source(), *range(2000))).actions
    assert actions.float().mean().item() == pytest.approx(0.8, abs=0.03)  # 3 deviations


def test_noise_is_a_function_of_seed_epoch_and_index_and_no_test_is_trained_on():
    task = task_of()
    source = task.train_source()
    whole = noise_of(source, *range(10))
    assert torch.equal(noise_of(source, 7, 2).picks, whole.picks[[7, 2]])
    for other in (
        noise_of(source, *range(10), seed=1),
        noise_of(source, *range(10), epoch=1),
        noise_of(task.test_source(), *range(10)),
    ):
        assert not (other.starts == whole.starts).any()
    assert whole.picks.min() >= 0
    assert whole.picks.max() < 1


def test_returns_and_baseline_by_hand():
    g = DISCOUNT
    rewards = torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    expected = (1 - g) * torch.tensor([[1 + g + g * g, 1.0], [1 + g, 0.0], [1.0, 0.0]])
    returns = to_go(rewards)
    assert torch.allclose(returns, expected)
    assert torch.equal(others_mean(returns), returns.flip(1))  # of two, each is the other's
    assert others_mean(returns[:, :1]).eq(0).all()
    assert to_go(torch.ones(2000, 1))[0].item() == pytest.approx(1.0, abs=1e-5)


def test_the_gradient_is_that_of_reinforce():
    """Two actions: log π of the right one is -ln(1 + exp(-z)), whose derivative by z is 1 - π(right)."""
    task = task_of()
    model = task.build_model()
    nn.init.zeros_(model.head.weight)
    model.head.bias.data = torch.tensor([0.0, 0.3])
    noise = noise_of(task.train_source(), 0, 1, 2)
    loss = task.loss(model, noise)
    loss.backward()
    played = play(model, noise)
    right = torch.sigmoid(torch.tensor(0.3)).item()
    returns, total = to_go(played.rewards), 0.0
    for i in range(3):
        for t in range(int(played.rewards[:, i].sum())):
            baseline = sum(returns[t, j].item() for j in range(3) if j != i) / 2
            total += (returns[t, i].item() - baseline) * (played.actions[t, i].item() - right)
    assert model.head.bias.grad[1].item() == pytest.approx(-total / 3, rel=1e-4)
    assert loss.item() == pytest.approx(-returns[0].mean().item(), rel=1e-6)


def test_a_policy_without_finite_logits_scores_worst():
    """An action drawn from no probabilities is not an action: such a run ends as diverged, with return 0."""
    task = task_of()
    model = task.build_model()
    nn.init.constant_(model.head.weight, math.nan)
    noise = noise_of(task.test_source(), 0, 1)
    assert math.isnan(task.metrics(task.outcomes(model, noise))["return"])
    assert task.loss(model, noise).isnan()


def config_of(*changes):
    short = ("epochs=2", "batch_size=8", "log_every=2", "monitor_every=4")
    few = ("task.data_options.episodes=24", "task.data_options.steps=30")
    return override(RECIPE, [*short, *few, "evaluate_every=1", *changes])


def test_stopped_and_resumed_ends_with_the_same_weights(tmp_path):
    config = config_of("optimizer.activation=arctan(0.1, 20)")
    assert train(config, tmp_path / "whole").steps == 6
    for step in (2, 4):
        with pytest.raises(Interrupted):
            train(config, tmp_path / "stopped", progress=Kick(step))
    train(config, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    train(config_of("seed=1"), tmp_path / "other")
    mine, other = (last_checkpoint(tmp_path / name)["model"] for name in ("whole", "other"))
    assert not torch.equal(mine["head.weight"], other["head.weight"])


@pytest.mark.slow
def test_killed_and_resumed_ends_with_the_same_weights(tmp_path):
    few = ("task.data_options.episodes=64", "task.data_options.steps=100")
    sets = ("epochs=5", "batch_size=8", "evaluate_every=0", "checkpoint_every=3", *few)
    assert_survives_a_kill("cartpole-mlp-adam", sets, tmp_path)


def test_it_learns_to_hold_the_pole_longer_than_chance(tmp_path):
    task = task_of(data_options={"steps": 60})
    model = task.build_model()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    with torch.no_grad():
        chance = task.outcomes(model, noise_of(task.test_source(), *range(64)))["return"].mean()
    assert 15 < chance.item() < 30  # 20 steps or so is what a coin does
    few = ("task.data_options.steps=60", "task.data_options.episodes=64")
    short = ("epochs=5", "evaluate_every=0", "optimizer.lr=0.1")
    found = train(override(RECIPE, [*few, *short]), tmp_path)
    assert found.score_name == "return"
    assert found.score > 2 * chance.item()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data": "cartpol"}, "unknown environment 'cartpol'; did you mean 'cartpole'"),
        ({"data_options": {"gravity": 5}}, "unknown option 'gravity' of the environment cartpole"),
        ({"data_options": {"steps": 0}}, "steps of cartpole must be a whole number above 0"),
        ({"data_options": {"steps": 501}}, "at most 500 steps, not 501"),
        ({"label_smoothing": 0.1}, "an agent has no labels"),
        ({"model": "transformer", "model_options": {}}, "takes a perceptron"),
        ({"model_options": {"size": 8}}, "the environment decides size of mlp"),
    ],
)
def test_bad_input_is_a_sentence(changes, says):
    def refused():
        task = task_of(**changes)
        task.check(task.build_model())

    with pytest.raises(ValueError, match=says) as caught:
        refused()
    assert "\n" not in str(caught.value)


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ValueError, match=r"pip install 'activated-gradients\[lab\]'"):
        task_of().train_source()
