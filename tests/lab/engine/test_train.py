"""Training in this process: results, folders, resuming at any step, divergence, precision, accumulation."""

import json
import math
import os
import signal

import pytest
import torch

import gaf
from gaf.lab.engine import folder as folders
from gaf.lab.engine import loop
from gaf.lab.engine.progress import Progress
from gaf.lab.engine.run import DiskFull, read_result, train
from gaf.lab.engine.signals import Interrupted
from tests.lab.engine.tiny import (
    Tiny,
    assert_same_run,
    assert_same_tree,
    events,
    last_checkpoint,
    metrics,
    tiny_config,
)


class Kick(Progress):
    """Sends this process a signal after a step, or in the evaluation after it."""

    def __init__(self, at, number=signal.SIGTERM):
        self.at, self.number = at, number

    def step(self, step, samples):
        if step == self.at:
            os.kill(os.getpid(), self.number)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return train(tiny_config(dropout=0.2), folder)


def test_a_run_is_a_folder(finished):
    names = {path.name for path in finished.folder.iterdir()} - {".lock"}
    assert names == {
        *("config.json", "identity.json", "environment.json", "metrics.jsonl"),
        *("finished.json", "checkpoints", "tensorboard"),
    }
    assert folders.read_config(finished.folder) == tiny_config(dropout=0.2)
    about = json.loads((finished.folder / "environment.json").read_text())
    assert about["versions"].keys() >= {"python", "gaf", "torch", "lightning-fabric"}
    assert about.keys() >= {"cpu", "device", "git", "command", "threads", "processes", "time"}
    assert about["data"] == {"train": {"blobs": "80 of 1"}, "test": {"blobs": "23 of 2"}}
    assert os.uname().nodename not in (finished.folder / "environment.json").read_text()


def test_the_result_is_what_the_last_evaluation_found(finished):
    tests = [record for record in metrics(finished.folder) if record["kind"] == "test"]
    assert [record["step"] for record in tests] == [5, 10, 15]
    assert finished.final == {name: tests[-1][name] for name in ("loss", "top1", "sample")}
    assert finished.score == finished.final["top1"]
    assert finished.best["top1"] == max(record["top1"] for record in tests)
    assert not finished.diverged
    assert finished.steps == 15
    assert finished.seconds_per_step > 0
    assert finished.final["sample"] == pytest.approx(Tiny().test.x[:, 0].mean().item(), abs=0.01)


def test_records_hold_loss_rate_and_what_f_sees(finished):
    records = metrics(finished.folder)
    trained = [record for record in records if record["kind"] == "train"]
    assert [record["step"] for record in trained] == [2, 4, 5, 6, 8, 10, 12, 14, 15]
    assert trained[0]["lr"] == pytest.approx(0.1 * (1 + math.cos(math.pi / 15)) / 2)
    seen = [record for record in records if record["kind"] == "gradients"]
    assert [record["step"] for record in seen] == [1, 5, 9, 13]
    assert all(record["enlarged"] + record["restrained"] == pytest.approx(1) for record in seen)
    assert all(record["max"] > 0 for record in seen)


def test_tensorboard_has_the_same_figures(finished):
    shown = {(step, tag): value for step, tag, value in events(finished.folder)}
    for record in metrics(finished.folder):
        if record["kind"] == "test":
            assert shown[record["step"], "test/top1"] == pytest.approx(record["top1"])
        if record["kind"] == "gradients":
            assert shown[record["step"], "gradients0/max"] == pytest.approx(record["max"])


def test_a_finished_run_is_not_run_twice(finished, monkeypatch):
    monkeypatch.setattr(Tiny, "build_model", None)
    again = train(tiny_config(dropout=0.2), finished.folder)
    assert again == finished == read_result(finished.folder)
    with pytest.raises(ValueError, match="holds this run already"):
        train(tiny_config(dropout=0.2), finished.folder, resume=False)


def test_another_config_is_refused_by_the_first_key_that_differs(finished):
    with pytest.raises(ValueError, match=r"optimizer\.lr is 0\.1, not 0\.2"):
        train(tiny_config("optimizer.lr=0.2", "seed=3", dropout=0.2), finished.folder)
    with pytest.raises(ValueError, match=r"task\.options\.dropout is 0\.2, not None"):
        train(tiny_config(), finished.folder)


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not touch")
    with pytest.raises(ValueError, match="holds no run"):
        train(tiny_config(), tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        train(tiny_config(), tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(finished, tmp_path):
    train(tiny_config(dropout=0.2), tmp_path / "again")
    assert_same_run(finished.folder, tmp_path / "again")
    train(tiny_config("seed=1", dropout=0.2), tmp_path / "other")
    assert metrics(finished.folder) != metrics(tmp_path / "other")


VALIDATION = ("task.validation=0.2", "task.score_on=validation")


@pytest.fixture(scope="module", params=[(80, ()), (100, VALIDATION)], ids=["test", "validation"])
def config(request):
    """Five steps an epoch, scored on test or on validation data."""
    samples, changes = request.param
    return tiny_config(*changes, samples=samples, dropout=0.2)


@pytest.fixture(scope="module")
def uninterrupted(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("uninterrupted"))


@pytest.mark.parametrize("step", [1, 5, 8, 14, 15])
def test_interrupted_and_resumed_is_as_if_nothing_had_happened(
    config, uninterrupted, tmp_path, step
):
    with pytest.raises(Interrupted) as stop:
        train(config, tmp_path, progress=Kick(step))
    assert (stop.value.step, stop.value.number) == (step, signal.SIGTERM)
    assert not (tmp_path / "finished.json").exists()
    result = train(config, tmp_path)
    assert_same_run(uninterrupted.folder, tmp_path)
    assert result.final == uninterrupted.final
    assert len(json.loads((tmp_path / "environment.json").read_text())["resumed"]) == 1


def test_interrupted_after_each_step(finished, tmp_path):
    config = tiny_config(dropout=0.2)
    for step in range(1, 15):
        with pytest.raises(Interrupted):
            train(config, tmp_path, progress=Kick(step))
    train(config, tmp_path)
    assert_same_run(finished.folder, tmp_path)


def test_interrupted_in_an_evaluation(finished, tmp_path, monkeypatch):
    config, outcomes = tiny_config(dropout=0.2), Tiny.outcomes
    calls = []

    def kicked(self, model, batch):
        calls.append(batch)
        if len(calls) > 1:  # the first is the check of the task
            os.kill(os.getpid(), signal.SIGINT)
        return outcomes(self, model, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Tiny, "outcomes", kicked)
        with pytest.raises(Interrupted) as stop:
            train(config, tmp_path)
    assert stop.value.step == 5
    assert not [record for record in metrics(tmp_path) if record["kind"] == "test"]
    train(config, tmp_path)
    assert_same_run(finished.folder, tmp_path)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert train(tiny_config(), tmp_path, progress=Kick(3)).steps == 15
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signal_handlers_threads_and_random_states_come_back(tmp_path):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    train(tiny_config("threads=2", "epochs=1"), tmp_path)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_a_damaged_checkpoint_costs_time_and_nothing_else(finished, tmp_path):
    config = tiny_config(dropout=0.2)
    with pytest.raises(Interrupted):
        train(config, tmp_path, progress=Kick(13))
    part = tmp_path / "checkpoints" / "step-00000013" / "part-0.pt"
    part.write_bytes(part.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="step-00000013 is damaged"):
        train(config, tmp_path)
    assert_same_run(finished.folder, tmp_path)


def test_a_start_that_was_killed_at_any_write_can_begin_again(tmp_path, monkeypatch):
    from gaf.common import files

    class Killed(BaseException):
        pass

    replace = os.replace
    for writes in range(1, 3):  # config.json, environment.json
        done = []

        def killed(*args, done=done, writes=writes):
            replace(*args)
            done.append(args)
            if len(done) == writes:
                raise Killed

        folder = tmp_path / str(writes)
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "replace", killed)
            with pytest.raises(Killed):
                train(tiny_config("epochs=1"), folder)
        assert train(tiny_config("epochs=1"), folder).steps == 5


@pytest.mark.parametrize(("seconds", "checkpoints"), [(5, [15]), (0, [10, 15])])
def test_epochs_that_follow_soon_write_no_checkpoint(seconds, checkpoints, tmp_path, monkeypatch):
    """The two newest are kept."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", seconds)
    train(tiny_config("checkpoint_every=null"), tmp_path)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == [f"step-{step:08d}" for step in checkpoints]


def test_records_that_were_cut_are_a_sentence(tmp_path):
    with pytest.raises(Interrupted):
        train(tiny_config(), tmp_path, progress=Kick(8))
    (tmp_path / "metrics.jsonl").write_text("")
    for _ in range(2):
        with pytest.raises(
            gaf.GafError, match=r"shorter than it was .* or delete the run to begin it again"
        ):
            train(tiny_config(), tmp_path)


def test_records_that_were_cut_after_the_checkpoint_before_are_made_again(finished, tmp_path):
    """Checkpoints at the steps 5 and 8: what the first of them needs is there."""
    config = tiny_config(dropout=0.2)
    with pytest.raises(Interrupted):
        train(config, tmp_path, progress=Kick(8))
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(UserWarning, match="metrics.jsonl is shorter than it was"):
        train(config, tmp_path)
    assert_same_run(finished.folder, tmp_path)
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == [
        "step-00000010",
        "step-00000015",
    ]


@pytest.mark.parametrize("left", [None, 100])
def test_a_tensorboard_file_that_is_lost_is_made_again(finished, tmp_path, left):
    config = tiny_config(dropout=0.2)
    with pytest.raises(Interrupted):
        train(config, tmp_path, progress=Kick(8))
    (path,) = (tmp_path / "tensorboard").iterdir()
    content = path.read_bytes()
    path.unlink() if left is None else path.write_bytes(content[:left])
    train(config, tmp_path)
    assert_same_run(finished.folder, tmp_path)


def test_other_data_is_refused(tmp_path, monkeypatch):
    with pytest.raises(Interrupted):
        train(tiny_config(), tmp_path, progress=Kick(8))
    about = json.loads((tmp_path / "identity.json").read_text())
    about["data"]["train"]["blobs"] = "others"
    (tmp_path / "identity.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="data has changed"):
        train(tiny_config(), tmp_path)


def test_two_trainings_in_a_folder_are_refused(tmp_path):
    with folders.locked(tmp_path), pytest.raises(ValueError, match="another process is training"):
        train(tiny_config(), tmp_path)
    assert not (tmp_path / "config.json").exists()
    train(tiny_config("epochs=1"), tmp_path)


@pytest.mark.parametrize("at", [0.5, 6])
def test_a_divergence_is_a_result_with_a_score(tmp_path, at):
    config = tiny_config(explode=at)
    result = train(config, tmp_path)
    assert result.diverged
    assert (result.score, result.final) == (0.0, {"top1": 0.0})
    assert result.steps < 15
    assert metrics(tmp_path)[-1]["kind"] == "diverged"
    assert math.isnan([r["loss"] for r in metrics(tmp_path) if r["kind"] == "train"][-1])
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # other readers know no NaN
    assert train(config, tmp_path) == result == read_result(tmp_path)
    assert (result.best == {}) == (at < 1)


def test_a_learning_rate_that_is_too_large_diverges(tmp_path):
    change = ("optimizer.lr=1e38", "optimizer.activation=null", "optimizer.momentum=0")
    assert train(tiny_config(*change, depth=3), tmp_path).diverged


def test_iterations_end_a_run_within_an_epoch(tmp_path):
    result = train(tiny_config("iterations=7", "evaluate_every=0"), tmp_path)
    assert result.steps == 7
    assert [r["step"] for r in metrics(tmp_path) if r["kind"] == "test"] == [7]


def weights(*changes, folder, **options):
    train(tiny_config("epochs=2", *changes, **options), folder)
    return torch.cat([w.flatten() for w in last_checkpoint(folder)["model"].values()])


@pytest.mark.parametrize("samples", [80, 83])
def test_accumulated_parts_make_the_same_step(tmp_path, samples):
    # 83 samples: the last batch has three, and so parts of one
    whole = weights(folder=tmp_path / "whole", samples=samples)
    parts = weights("accumulate=4", folder=tmp_path / "parts", samples=samples)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-6)  # observed: 4.5e-8
    assert not torch.equal(whole, weights("batch_size=8", folder=tmp_path / "o", samples=samples))


def test_without_an_activation_a_step_is_torchs(tmp_path):
    changes = ("optimizer.activation=null", "optimizer.weight_decay=0.01", "schedule.name=constant")
    found = weights(*changes, "epochs=1", folder=tmp_path)
    task, sampler_seed = Tiny(), 0
    torch.manual_seed(sampler_seed)
    model = task.build_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    from gaf.lab.engine.rng import Sampler

    indices = Sampler(80, 16, False, sampler_seed).epoch(0)
    for batch in task.train.batches(indices, seed=0, epoch=0, device=torch.device("cpu")):
        opt.zero_grad()
        task.loss(model, batch).backward()
        opt.step()
    assert torch.equal(found, torch.cat([w.detach().flatten() for w in model.parameters()]))


@pytest.mark.parametrize("rule", ["clip_value", "clip_norm"])
def test_clipping_changes_the_path_only_where_it_bites(tmp_path, rule):
    plain = weights(folder=tmp_path / "plain")
    loose = weights(f"optimizer.{rule}=1e6", folder=tmp_path / "loose")
    tight = weights(f"optimizer.{rule}=1e-3", folder=tmp_path / "tight")
    assert torch.equal(plain, loose)
    assert (tight - plain).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_and_adamw_train(tmp_path, name):
    changes = (f"optimizer.name={name}", "optimizer.momentum=0", "optimizer.lr=0.01")
    result = train(tiny_config(*changes), tmp_path)
    assert result.final["loss"] < 2.3
    state = last_checkpoint(tmp_path)["optimizer"]["state"]
    assert state[0].keys() >= {"exp_avg", "exp_avg_sq"}


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("clip", ["optimizer.clip_norm=1.0", "optimizer.clip_norm=null"])
def test_mixed_precision_trains_resumes_and_keeps_its_scale(tmp_path, precision, clip):
    config = tiny_config(f"precision={precision}", clip)
    whole = train(config, tmp_path / "whole")
    full = train(tiny_config(clip), tmp_path / "full")
    assert whole.final["loss"] == pytest.approx(full.final["loss"], rel=0.02)
    assert whole.final["loss"] != full.final["loss"]
    with pytest.raises(Interrupted):
        train(config, tmp_path / "cut", progress=Kick(7))
    train(config, tmp_path / "cut")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    scaler = last_checkpoint(tmp_path / "whole")["scaler"]
    assert bool(scaler) == (precision == "16-mixed")
    if scaler:
        assert scaler["scale"] == 65536.0
        assert scaler["_growth_tracker"] == 15


def test_fp16_skips_a_step_that_overflows(tmp_path, monkeypatch):
    loss = Tiny.loss

    def huge(self, model, batch):
        found = loss(self, model, batch)
        return found * 1e30 if self.losses == 3 else found

    monkeypatch.setattr(Tiny, "loss", huge)
    result = train(tiny_config("precision=16-mixed"), tmp_path)
    assert not result.diverged
    assert last_checkpoint(tmp_path)["scaler"]["scale"] == 32768.0


def test_channels_last_reaches_the_model(tmp_path, monkeypatch):
    built, build = [], Tiny.build_model

    def with_a_convolution(self):
        model = build(self)
        model.register_module("unused", torch.nn.Identity())
        model.unused.weight = torch.nn.Parameter(torch.randn(4, 4, 3, 3))
        built.append(model)
        return model

    monkeypatch.setattr(Tiny, "build_model", with_a_convolution)
    for wanted in (True, False):
        train(
            tiny_config(f"channels_last={str(wanted).lower()}", "epochs=1"), tmp_path / str(wanted)
        )
        weight = built[-1].unused.weight
        assert weight.is_contiguous(memory_format=torch.channels_last) == wanted


@pytest.mark.slow
def test_a_compiled_model_trains_and_resumes(tmp_path):
    config = tiny_config("compile=true")
    with pytest.raises(Interrupted):
        train(config, tmp_path / "compiled", progress=Kick(7))
    compiled = train(config, tmp_path / "compiled")
    plain = train(tiny_config(), tmp_path / "plain")
    assert compiled.final["loss"] == pytest.approx(plain.final["loss"], rel=1e-4)
    assert last_checkpoint(tmp_path / "compiled")["model"].keys() == (
        last_checkpoint(tmp_path / "plain")["model"].keys()
    )


def test_placements_differ(tmp_path):
    found = [
        weights(f"optimizer.placement={place}", folder=tmp_path / place) for place in gaf.PLACEMENTS
    ]
    assert len({tuple(each.tolist()) for each in found}) == 3


def test_a_full_disk_is_a_sentence_and_the_checkpoint_before_is_whole(
    finished, tmp_path, monkeypatch
):
    from gaf.common import files
    from gaf.lab.engine import checkpoint

    config, write = tiny_config(dropout=0.2), files.Hashing.write
    config_steps = []

    def full(self, data):
        if len(config_steps) == 2:
            self._error = OSError(28, "No space left on device")
        return write(self, data)

    saved = checkpoint.save

    def counted(*args):
        saved(*args)
        config_steps.append(args[2])

    with monkeypatch.context() as patch:
        patch.setattr(files.Hashing, "write", full)
        patch.setattr(checkpoint, "save", counted)
        with pytest.raises(
            DiskFull, match="the checkpoint step-00000010 is whole, free some space"
        ):
            train(config, tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-00000005",
        "step-00000010",
    ]
    train(config, tmp_path)
    assert_same_run(finished.folder, tmp_path)


def test_bad_input_leaves_nothing_behind(tmp_path):
    for config in (
        tiny_config(nonsense=1),
        tiny_config("drop_last=true", "batch_size=100"),
        tiny_config("accelerator=cuda", "devices=64"),
        tiny_config("precision=16-mixed", "strategy=fsdp2"),
    ):
        with pytest.raises(ValueError) as error:  # noqa: PT011 - any sentence
            train(config, tmp_path / "run")
        assert "\n" not in str(error.value)
        assert not (tmp_path / "run").exists()


def test_unequal_trees_are_noticed():
    with pytest.raises(AssertionError, match="/a/0"):
        assert_same_tree({"a": [torch.zeros(2)]}, {"a": [torch.ones(2)]})
