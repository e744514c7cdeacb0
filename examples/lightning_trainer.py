"""Lightning: one callback puts f in front of any optimizer, with accumulation, clipping and bf16."""

import logging
import warnings

import lightning.pytorch as pl
import torch
from torch import nn

from gaf.integrations.lightning import GradientActivation

warnings.filterwarnings("ignore")  # hints of Lightning about workers and the machine
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.manual_seed(0)
torch.set_num_threads(1)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))

    def training_step(self, batch, index):
        points, labels = batch
        loss = nn.functional.cross_entropy(self.net(points), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=1e-3)


points = torch.randn(512, 8)
labels = (points[:, 0] * points[:, 1] > 0).long()
data = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(points, labels), batch_size=32, shuffle=True
)

trainer = pl.Trainer(
    accelerator="cpu",
    max_epochs=3,
    precision="bf16-mixed",
    accumulate_grad_batches=2,
    gradient_clip_val=1.0,
    callbacks=[GradientActivation("arctan(0.1, 20)", log_every=8)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Classifier(), data)
for name, value in sorted(trainer.callback_metrics.items()):
    print(f"{name:24s} {value:.4f}")
