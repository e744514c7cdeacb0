"""Lightning under `gaf compare`: the trial's optimizer in configure_optimizers, and one report at the end.

python examples/trial_lightning.py
gaf compare examples/trial_lightning.py
"""

import logging
import warnings

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gaf

warnings.filterwarnings("ignore")  # hints of Lightning about workers and the machine
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

trial = gaf.trial(score="accuracy")
pl.seed_everything(trial.seed, verbose=False)
STEPS, EPOCHS = 16, 4


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))

    def training_step(self, batch, index):
        points, labels = batch
        return nn.functional.cross_entropy(self.net(points), labels)

    def validation_step(self, batch, index):
        points, labels = batch
        self.log("accuracy", (self.net(points).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        opt = trial.optimizer("sgd", self.parameters(), lr=0.1, momentum=0.9)
        # a scheduler with a rate of its own
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            opt, max_lr=trial.rate(0.5), total_steps=STEPS * EPOCHS
        )
        return [opt], [{"scheduler": schedule, "interval": "step"}]


def data(count: int, seed: int, shuffle: bool = False) -> DataLoader:
    points = torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))
    labels = (points[:, 0] + points[:, 1] ** 2 > 1).long()
    return DataLoader(TensorDataset(points, labels), batch_size=32, shuffle=shuffle)


trainer = pl.Trainer(
    accelerator="cpu",
    max_epochs=EPOCHS,
    gradient_clip_val=5.0,
    default_root_dir=trial.folder,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Classifier()
trainer.fit(model, data(32 * STEPS, 1, shuffle=True))


def accuracy(loader: DataLoader) -> float:
    return trainer.validate(model, loader, verbose=False)[0]["accuracy"]


with trial.evaluating():
    trial.report(validation=accuracy(data(256, 2)), test=lambda: accuracy(data(256, 3)))
