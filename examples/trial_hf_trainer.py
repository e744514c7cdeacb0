"""transformers' Trainer under `gaf compare`: the trial's optimizer, its seed, and one report at the end.

python examples/trial_hf_trainer.py
gaf compare examples/trial_hf_trainer.py
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import gaf

trial = gaf.trial(score="loss", higher_is_better=False)
transformers.logging.set_verbosity_error()


def counting(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Sequences that count upwards from a random start."""
    starts = torch.randint(12, (count, 1), generator=torch.Generator().manual_seed(seed))
    rows = (starts + torch.arange(16)) % 12
    return [{"input_ids": row, "labels": row} for row in rows]


args = TrainingArguments(
    output_dir=str(trial.folder),
    seed=trial.seed,
    use_cpu=True,
    per_device_train_batch_size=16,
    max_steps=24,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
transformers.set_seed(trial.seed)
model = GPT2LMHeadModel(GPT2Config(vocab_size=12, n_positions=16, n_embd=16, n_layer=1, n_head=2))
opt = trial.optimizer("adamw", model.parameters(), lr=1e-2, weight_decay=0.01)
trainer = Trainer(model, args, train_dataset=counting(256, 1), optimizers=(opt, None))
trainer.train()


def loss_on(data: list[dict[str, torch.Tensor]]) -> float:
    return trainer.evaluate(data)["eval_loss"]


with trial.evaluating():
    trial.report(validation=loss_on(counting(64, 2)), test=lambda: loss_on(counting(64, 3)))
