"""A training by Lightning equals one by hand, step by step, under every precision plugin and accumulation."""

import logging
import warnings

import pytest
import torch
from torch import nn

import gaf
from tests.integrations.hand import (
    STEPS,
    F,
    assert_equal_steps,
    by_hand,
    make_model,
    samples,
    weights,
)

pytest.importorskip("lightning")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its imports
    import lightning.pytorch as pl
    from lightning.pytorch.plugins import MixedPrecision
    from lightning.pytorch.strategies import (
        DeepSpeedStrategy,
        FSDPStrategy,
        SingleDeviceXLAStrategy,
    )

    from gaf.integrations.lightning import (
        GradientActivation,
        GradientMonitor,
        refuse_flat,
        refuse_strategy,
    )

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
# Slow for its import. The warnings are its own, about loggers, workers and the machine.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DTYPES = {"64-true": torch.float64, "bf16-true": torch.bfloat16, "16-true": torch.float16}
PRECISIONS = ("32-true", *DTYPES, "bf16-mixed", "16-mixed")


class Module(pl.LightningModule):
    def __init__(self, make_optimizer, manual=False):
        super().__init__()
        self.net = make_model()
        self.make_optimizer = make_optimizer
        self.automatic_optimization = not manual

    def training_step(self, batch, index):
        loss = loss_of(self.net, batch)
        if self.automatic_optimization:
            return loss
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return None

    def configure_optimizers(self):
        return self.make_optimizer(self.net.parameters())


class Recorder(pl.Callback):
    """The weights after each step of the optimizer."""

    def __init__(self):
        self.seen = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self.seen.append(weights(pl_module))


def loss_of(net, batch):
    return nn.functional.mse_loss(net(batch[0]), batch[1])


def scaler():
    return torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)


def loader(accumulate):
    return torch.utils.data.DataLoader(samples(4 * STEPS * accumulate), batch_size=4)


def trainer_for(precision, callbacks, accumulate=1, clip=None, **options):
    """fp16 with a scaler on a CPU: Lightning would turn the name into bf16, the plugin it takes."""
    plugins = []
    if precision == "16-mixed":
        plugins, precision = [MixedPrecision("16-mixed", "cpu", scaler())], None
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=clip,
        precision=precision,
        plugins=plugins,
        callbacks=callbacks,
        **{"logger": False, "max_epochs": 1, **options},
    )


def expected(precision, make_optimizer, accumulate=1, clip=0.0):
    dtype = DTYPES.get(precision, torch.float32)
    net = make_model().to(dtype)
    optimizer = make_optimizer(net.parameters())
    return by_hand(
        net,
        optimizer,
        [[part.to(dtype) for part in batch] for batch in loader(accumulate)],
        loss_of,
        accumulate=accumulate,
        clip=clip,
        autocast={"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(precision),
        scaler=scaler() if precision == "16-mixed" else None,
    )


def rmsprop(params):
    return torch.optim.RMSprop(params, lr=0.01, eps=1e-3)  # 1e-8 is 0 in fp16


def compare(precision, accumulate, clip):
    recorder = Recorder()
    callbacks = [GradientActivation(F, log_every=None), recorder]
    trainer = trainer_for(precision, callbacks, accumulate, clip)
    trainer.fit(Module(rmsprop), loader(accumulate))
    assert_equal_steps(recorder.seen, expected(precision, rmsprop, accumulate, clip or 0.0))
    assert not gaf.is_activated(trainer.optimizers[0])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_equals_a_loop_by_hand(precision):
    for accumulate in (1, 3):
        for clip in (None, 0.1):
            compare(precision, accumulate, clip)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_manual_optimization_and_our_own_optimizers(precision):
    recorder = Recorder()
    trainer_for(precision, [GradientActivation(F), recorder]).fit(
        Module(rmsprop, manual=True), loader(1)
    )
    assert_equal_steps(recorder.seen, expected(precision, rmsprop))

    name = "sgd+arctan(0.1, 20)@gradient"

    def ours(params):
        return gaf.create_optimizer(name, params, lr=0.1, momentum=0.9, foreach=True)

    def torchs(params):
        return torch.optim.SGD(params, lr=0.1, momentum=0.9, foreach=True)

    recorder = Recorder()
    trainer_for(precision, [recorder], accumulate=2).fit(Module(ours), loader(2))
    assert_equal_steps(recorder.seen, expected(precision, torchs, accumulate=2))


def test_a_fused_optimizer_that_unscales_by_itself():
    """Its step is handed scaled gradients; f still sees them unscaled."""

    def fused(params):
        return torch.optim.Adam(params, lr=0.01, fused=True)

    recorder = Recorder()
    trainer_for("16-mixed", [GradientActivation(F), recorder]).fit(Module(fused), loader(1))
    assert_equal_steps(recorder.seen, expected("16-mixed", fused))


def test_figures_are_logged_and_a_checkpoint_is_resumed(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    callbacks = [GradientActivation(F, log_every=2)]
    logger = CSVLogger(tmp_path)
    trainer = trainer_for("32-true", callbacks, logger=logger, log_every_n_steps=1)
    trainer.fit(Module(rmsprop), loader(1))
    lines = (tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()
    assert set(lines[0].split(",")) >= {"step", "gaf/group0/linear", "gaf/group0/max"}
    assert 0 <= trainer.callback_metrics["gaf/group0/linear"] <= 1

    class Save(pl.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / f"{trainer.current_epoch}.ckpt")

    whole, rest = Recorder(), Recorder()
    trainer = trainer_for("32-true", [GradientActivation(F), whole, Save()], max_epochs=2)
    trainer.fit(Module(rmsprop), loader(1))
    state = torch.load(tmp_path / "0.ckpt", weights_only=True)["optimizer_states"][0]
    assert state["param_groups"][0]["gaf_params"] == (0.1, 20.0)
    trainer = trainer_for("32-true", [GradientActivation(F), rest], max_epochs=2)
    trainer.fit(Module(rmsprop), loader(1), ckpt_path=tmp_path / "0.ckpt", weights_only=True)
    assert_equal_steps(rest.seen, whole.seen[STEPS:])


def test_the_monitor_sees_lightnings_clipping_and_changes_nothing():
    recorder, watching = Recorder(), GradientMonitor(every=2, per="tensor")
    trainer = trainer_for("32-true", [watching, recorder], clip=0.01)
    clip = torch.nn.utils.clip_grad_norm_
    trainer.fit(Module(rmsprop), loader(1))
    plain = Recorder()
    trainer_for("32-true", [plain], clip=0.01).fit(Module(rmsprop), loader(1))
    assert_equal_steps(recorder.seen, plain.seen)
    assert torch.nn.utils.clip_grad_norm_ is clip
    (monitor,) = watching.monitors
    assert [entry["step"] for entry in monitor.clips] == list(range(1, STEPS + 1))
    assert all(entry["norm"] > 0.01 for entry in monitor.clips)
    names = [f"net.{name}" for name, _ in make_model().named_parameters()]
    assert list(monitor.latest) == names
    total = sum(record["norm"] ** 2 for record in monitor.latest.values())
    assert total**0.5 == pytest.approx(0.01, rel=1e-3)  # as the step got them
    assert not trainer.optimizers[0]._optimizer_step_pre_hooks


class Warm(Module):
    """One optimizer for every fit, under a warm-up."""

    def configure_optimizers(self):
        self.kept = getattr(self, "kept", None) or rmsprop(self.net.parameters())
        warmup = torch.optim.lr_scheduler.LinearLR(self.kept, start_factor=0.01)
        return {"optimizer": self.kept, "lr_scheduler": {"scheduler": warmup, "interval": "step"}}


def test_a_checkpoint_saved_after_the_fit_and_a_second_fit(tmp_path):
    module, callback = Warm(None), GradientActivation("auto")
    trainer = trainer_for("bf16-true", [callback])
    trainer.fit(module, loader(1))
    trainer.save_checkpoint(tmp_path / "after.ckpt")
    saved = torch.load(tmp_path / "after.ckpt", weights_only=True)["optimizer_states"][0]
    auto = gaf.Auto(lr=0.01)  # the rate of a whole step, not the first of the warm-up
    assert gaf.activation_of(saved["param_groups"][0]) == auto
    assert all(state["gaf_auto"].dtype == torch.float64 for state in saved["state"].values())
    assert not gaf.is_activated(module.kept)
    assert not [name for name in vars(module.kept) if "gaf" in name]
    trainer_for("bf16-true", [callback]).fit(module, loader(1))
    assert gaf.activation_of(module.kept.param_groups[0]) == auto
    trainer_for("bf16-true", [GradientActivation(F)]).fit(module, loader(1))
    assert gaf.activation_of(module.kept.param_groups[0]) == F


def test_auto_and_scaled_on_flattened_shards_are_refused():
    strategy = object.__new__(FSDPStrategy)
    names = ("auto", "scaled", "arctan")
    optimizers = {name: gaf.activate(rmsprop([torch.ones(2)]), name) for name in names}
    for name in ("auto", "scaled"):
        with pytest.raises(ValueError, match=r"flattens every weight.*use ModelParallelStrategy"):
            refuse_flat(strategy, [optimizers["arctan"], optimizers[name]])
    refuse_flat(strategy, [optimizers["arctan"]])
    refuse_flat(object.__new__(DeepSpeedStrategy), [optimizers["auto"]])


def test_wrong_combinations_are_refused():
    for kind, word in ((DeepSpeedStrategy, "DeepSpeed"), (SingleDeviceXLAStrategy, "XLA")):
        with pytest.raises(ValueError, match=word):
            refuse_strategy(object.__new__(kind))

    def fit(make_optimizer):
        trainer_for("32-true", [GradientActivation(F)]).fit(Module(make_optimizer), loader(1))

    with pytest.raises(ValueError, match=r"gaf\.SGD has an activation of its own"):
        fit(lambda params: gaf.SGD(params, lr=0.1, activation=F))
    with pytest.raises(ValueError, match="LBFGS with a line search"):
        fit(lambda params: torch.optim.LBFGS(params, line_search_fn="strong_wolfe"))


def test_two_optimizers_with_one_parameter_are_refused():
    class Two(Module):
        def configure_optimizers(self):
            return [rmsprop(self.net.parameters()), rmsprop(self.net[0].parameters())]

    with pytest.raises(ValueError, match="two optimizers share a parameter"):
        trainer_for("32-true", [GradientActivation(F)]).fit(Two(None, manual=True), loader(1))
