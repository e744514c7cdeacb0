"""A training by transformers' Trainer, and one by accelerate, equal one by hand, step by step."""

import os
import warnings

os.environ.setdefault(
    "HF_HUB_OFFLINE", "1"
)  # nothing is fetched: the model is made from its configuration

import pytest
import torch

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

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of their imports
    import transformers
    from accelerate import Accelerator, DistributedType
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.state import AcceleratorState
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    from gaf.integrations.accelerate import activate_grad_, refuse_engine
    from gaf.integrations.transformers import (
        GradientActivation,
        GradientMonitor,
        optimizer_cls_and_kwargs,
    )

transformers.logging.set_verbosity_error()
# Slow for their imports. The warnings are their own, about the machine.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

BATCH = 2


@pytest.fixture(autouse=True)
def forgetful():
    """accelerate keeps the first precision of a process for all that follow."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def language_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=11,
            n_positions=8,
            n_embd=8,
            n_layer=1,
            n_head=2,
            **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0),
        )
        return GPT2LMHeadModel(config)


def texts(number):
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(11, (number, 8), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


class Recorder(transformers.TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.seen.append(weights(model))


class InOrder(Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def arguments(folder, accumulate=1, **options):
    return TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        num_train_epochs=1,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **options,
    )


def train(args, callbacks=(), **options):
    recorder = Recorder()
    data = texts(BATCH * STEPS * args.gradient_accumulation_steps)
    trainer = InOrder(
        language_model(), args, train_dataset=data, callbacks=[*callbacks, recorder], **options
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return trainer, recorder.seen


def expected(make_optimizer, accumulate=1, clip=0.0, bf16=False):
    model = language_model().train()
    data = texts(BATCH * STEPS * accumulate)
    batches = [
        torch.stack([row["input_ids"] for row in data[i : i + BATCH]])
        for i in range(0, len(data), BATCH)
    ]
    # The Trainer divides the sum of an accumulation's losses by the number of its labels.
    labels = BATCH * 8 * accumulate

    def loss_of(net, ids):
        loss = net(input_ids=ids, labels=ids, num_items_in_batch=torch.tensor(labels)).loss
        return loss * accumulate  # by_hand divides it again

    autocast = torch.bfloat16 if bf16 else None
    optimizer = make_optimizer(model)
    return by_hand(
        model, optimizer, batches, loss_of, accumulate=accumulate, clip=clip, autocast=autocast
    )


def rmsprop(model):
    return torch.optim.RMSprop(model.parameters(), lr=0.01)


@pytest.mark.parametrize("bf16", [False, True])
def test_trainer_equals_a_loop_by_hand(tmp_path, bf16):
    for accumulate, clip in ((1, 0.0), (2, 0.0), (2, 0.05)):
        args = arguments(tmp_path, accumulate, max_grad_norm=clip, bf16=bf16, optim="rmsprop")
        trainer, seen = train(args, [GradientActivation(F)])
        assert isinstance(trainer.optimizer.optimizer, torch.optim.RMSprop)
        assert not gaf.is_activated(trainer.optimizer.optimizer)  # after the training as it was
        assert_equal_steps(seen, expected(rmsprop, accumulate, clip, bf16))


def test_optimizer_by_name_equals_a_loop_by_hand(tmp_path):
    args = arguments(tmp_path, 2, weight_decay=0.1, max_grad_norm=0.0, adam_beta1=0.8)
    chosen = optimizer_cls_and_kwargs("adamw+arctan(0.1, 20)", args, foreach=True)
    trainer, seen = train(args, optimizer_cls_and_kwargs=chosen)
    assert type(trainer.optimizer.optimizer) is gaf.AdamW

    def adamw(model):
        decayed = [p for p in model.parameters() if p.ndim > 1]
        spared = [p for p in model.parameters() if p.ndim <= 1]
        groups = [
            {"params": decayed, "weight_decay": 0.1},
            {"params": spared, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.999), foreach=True)

    assert_equal_steps(seen, expected(adamw, 2))
    with pytest.raises(ValueError, match="use the callback GradientActivation"):
        optimizer_cls_and_kwargs("rmsprop+arctan", args)
    with pytest.raises(TypeError, match="activation is set by the name"):
        optimizer_cls_and_kwargs("sgd+arctan(0.1, 20)", args, activation="tanh(1, 1)")


def test_auto_under_a_warm_up(tmp_path):
    class Look(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, optimizer=None, **kwargs):
            held.append(gaf.activation_of(optimizer.param_groups[0]))

    held = []
    args = arguments(tmp_path, warmup_steps=2)
    args.lr_scheduler_type = transformers.SchedulerType.LINEAR
    train(args, [GradientActivation("auto"), Look()])
    assert held == [gaf.Auto(lr=0.01)] * STEPS


def test_a_resumed_training_keeps_the_groups_of_its_checkpoint(tmp_path):
    def half_activated(model):
        head, *body = model.parameters()
        groups = [{"params": body}, {"params": [head], "activation": None}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9), None

    def run(**resume):
        model = language_model()
        recorder = Recorder()
        args = arguments(tmp_path, max_grad_norm=0.0)
        args.save_strategy, args.save_steps = transformers.trainer_utils.SaveStrategy.STEPS, 2
        trainer = InOrder(
            model,
            args,
            train_dataset=texts(BATCH * STEPS),
            callbacks=[GradientActivation(F), recorder],
            optimizers=(half_activated(model)[0], None),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train(**resume)
        return recorder.seen

    whole = run()
    rest = run(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert_equal_steps(rest, whole[2:])


# accelerate has no scaler on a CPU; its optimizer takes one all the same.
@pytest.mark.parametrize("precision", ["no", "bf16", "scaler"])
@pytest.mark.parametrize("way", ["optimizer", "functional", "functional after clipping"])
def test_accelerate_equals_a_loop_by_hand(precision, way):
    accumulate = 3
    scalers = [
        torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        if precision == "scaler"
        else None
        for _ in range(2)
    ]
    clip = 0.05 if "clipping" in way else 0.0
    data = torch.utils.data.DataLoader(samples(4 * STEPS * accumulate), batch_size=4)

    def loss_of(net, batch):
        return torch.nn.functional.mse_loss(net(batch[0]), batch[1])

    def make(params):
        return torch.optim.RMSprop(params, lr=0.01)

    accelerator = Accelerator(
        cpu=True,
        mixed_precision="bf16" if precision == "bf16" else "no",
        gradient_accumulation_steps=accumulate,
    )
    model = make_model()
    optimizer = make(model.parameters())
    if way == "optimizer":
        gaf.activate(optimizer, F)
    model = accelerator.prepare(model)
    optimizer = AcceleratedOptimizer(optimizer, scaler=scalers[0])
    seen = []
    for batch in data:
        with accelerator.accumulate(model):
            loss = loss_of(model, batch)
            accelerator.backward(loss if scalers[0] is None else scalers[0].scale(loss))
            if clip and accelerator.sync_gradients:
                if scalers[0] is not None:
                    scalers[0].unscale_(optimizer.optimizer)
                accelerator.clip_grad_norm_(model.parameters(), clip)
            if way != "optimizer":
                largest = activate_grad_(accelerator, optimizer, F)
                assert (largest is None) != accelerator.sync_gradients
            optimizer.step()
            optimizer.zero_grad()
            if accelerator.sync_gradients:
                seen.append(weights(model))
    net = make_model()
    found = by_hand(
        net,
        make(net.parameters()),
        list(data),
        loss_of,
        accumulate=accumulate,
        clip=clip,
        autocast=torch.bfloat16 if precision == "bf16" else None,
        scaler=scalers[1],
    )
    if way == "optimizer":
        assert_equal_steps(seen, found)
    else:  # activate_grad_ takes the native kernels: observed 2e-8
        torch.testing.assert_close(seen, found, rtol=0, atol=1e-6)


def test_engines_that_keep_gradients_are_refused():
    for kind in (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM, DistributedType.XLA):
        with pytest.raises(ValueError, match=r"does not leave the gradients in p\.grad"):
            refuse_engine(kind)
    refuse_engine(DistributedType.FSDP)


def test_the_monitor_sees_the_trainers_clipping_and_changes_nothing(tmp_path):
    options = {"max_grad_norm": 0.01, "logging_steps": 1}
    watching = GradientMonitor(every=1)
    trainer, seen = train(arguments(tmp_path, **options), [watching])
    _, plain = train(arguments(tmp_path, **options))
    assert_equal_steps(seen, plain)
    assert len(watching.monitor.clips) == STEPS
    logged = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    norms = [entry["norm"] for entry in watching.monitor.clips]
    assert [entry["grad_norm"] for entry in logged] == pytest.approx(norms, rel=1e-4)
