"""A LightningModule as a worker of a run: only `configure_optimizers` differs.

Handwritten digits, with gradients accumulated over two batches and clipped.

Start several copies, and they train together: python lightning_module.py [ADDRESS]
"""

import logging
import sys

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import driftline

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "kafka:///lightning"


class Digits(pl.LightningModule):
    """Tells handwritten digits apart."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """Return the loss of a batch."""
        inputs, targets = batch
        return nn.functional.cross_entropy(self.layers(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Join the run."""
        return driftline.Optimizer(torch.optim.AdamW(self.parameters(), lr=3e-3), self, ADDRESS)


logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
held_out = torch.arange(len(labels)) % 5 == 0
loader = DataLoader(TensorDataset(images[~held_out], labels[~held_out]), batch_size=16, shuffle=True)

model = Digits()
trainer = pl.Trainer(
    max_epochs=3,
    accumulate_grad_batches=2,
    gradient_clip_val=1.0,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, loader)
model.eval()
with torch.no_grad():
    right = (model.layers(images[held_out]).argmax(dim=1) == labels[held_out]).float().mean().item()
print(f"version {trainer.optimizers[0].version}")
print(f"accuracy {right:.3f}")
