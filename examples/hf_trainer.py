"""transformers' Trainer: an optimizer by name; a tiny language model made from its configuration, offline."""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import gaf
from gaf.integrations.transformers import GradientActivation, optimizer_cls_and_kwargs

torch.set_num_threads(1)
transformers.set_seed(0)
transformers.logging.set_verbosity_error()


def tiny() -> GPT2LMHeadModel:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=12, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    )


# Sequences that count upwards, from a random start.
starts = torch.randint(12, (256, 1))
rows = (starts + torch.arange(16)) % 12
data = [{"input_ids": row, "labels": row} for row in rows]

with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        bf16=True,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        max_steps=24,
        learning_rate=1e-2,
        weight_decay=0.01,
        logging_steps=8,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    chosen = optimizer_cls_and_kwargs("adamw+arctan(0.1, 20)", args)
    trainer = Trainer(tiny(), args, train_dataset=data, optimizer_cls_and_kwargs=chosen)
    trainer.train()
    print("trained with", type(trainer.optimizer.optimizer).__name__, "of", gaf.__name__)

    # Any other optimizer of the Trainer: a callback puts f in front of it.
    args.optim = transformers.training_args.OptimizerNames.RMSPROP
    callback = GradientActivation("arctan(0.1, 20)")
    trainer = Trainer(tiny(), args, train_dataset=data, callbacks=[callback])
    trainer.train()
    print("trained with", type(trainer.optimizer.optimizer).__name__, "and a callback")
