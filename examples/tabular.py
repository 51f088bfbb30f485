"""A table too large for memory, as a worker of a run: a memory map of 2,381 columns, with missing labels.

The shape is that of EMBER, a public data set on malware; the numbers are random. Rows without a label (-1) are counted
and dropped. Means and deviations of the columns are buffers of the model: those of the worker that begins the run are
part of version 0, so every worker normalises in the same way, whatever rows it has seen.

Start several copies, and they train together: python tabular.py [ADDRESS]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import driftline

ROWS, COLUMNS, BATCH, STEPS = 3000, 2381, 128, 40


def make_table(folder: Path) -> None:
    """Write features of very different scales, two of them constant, and labels, of which a third are missing."""
    random = np.random.default_rng(0)
    table = np.memmap(folder / "X.dat", np.float32, "w+", shape=(ROWS, COLUMNS))
    labels = random.integers(0, 2, ROWS)
    table[:] = random.normal(size=(ROWS, COLUMNS)) + 0.1 * (2 * labels[:, None] - 1) * (np.arange(COLUMNS) % 10 == 0)
    table[:] *= 10.0 ** random.uniform(-3, 4, COLUMNS)
    table[:, 5], table[:, 6] = 0.0, 7.0
    table.flush()
    np.where(random.random(ROWS) < 1 / 3, -1, labels).astype(np.float32).tofile(folder / "y.dat")


class Detector(nn.Module):
    """Normalises rows and tells the two kinds apart."""

    def __init__(self, mean: torch.Tensor, deviation: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", torch.where(deviation > 0, deviation, 1.0))  # a constant column gives 0
        self.layers = nn.Sequential(nn.Linear(COLUMNS, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return a score above 0 for the second kind."""
        return self.layers((rows - self.mean) / self.deviation)


with tempfile.TemporaryDirectory() as folder:
    make_table(Path(folder))
    table = np.memmap(Path(folder) / "X.dat", np.float32, "r").reshape(-1, COLUMNS)
    labels = np.fromfile(Path(folder) / "y.dat", np.float32)
    known = np.flatnonzero(labels >= 0)
    print(f"{len(labels) - len(known)} of {len(labels)} rows have no label and are dropped")
    train, test = known[: -len(known) // 5], known[-len(known) // 5 :]

    seen = np.random.default_rng().choice(train, 500, replace=False)  # other rows in every worker, on purpose
    some = torch.from_numpy(table[np.sort(seen)])
    model = Detector(some.mean(dim=0), some.std(dim=0))
    inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    address = sys.argv[1] if len(sys.argv) > 1 else "kafka:///tabular"

    with driftline.Optimizer(inner, model, address, steps=STEPS) as opt:
        while not opt.done:
            chosen = np.sort(np.random.default_rng().choice(train, BATCH, replace=False))
            scores = model(torch.from_numpy(table[chosen]))
            loss = nn.functional.binary_cross_entropy_with_logits(scores, torch.from_numpy(labels[chosen]))
            opt.zero_grad()
            loss.backward()
            opt.step(weight=BATCH, loss=loss)

    with torch.no_grad():
        right = (model(torch.from_numpy(table[test])) > 0).numpy() == (labels[test] > 0)
    print(f"constant columns become {model.mean[5].item():.0f} and {model.mean[6].item():.0f} less themselves")
    print(f"accuracy {right.mean():.3f}")
