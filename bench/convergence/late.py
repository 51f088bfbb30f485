"""The fashion task in plain PyTorch, with gradients that are some steps late: what staleness alone does to momentum.

No Kafka and none of driftline's update rules: one process, batches as large as those of four workers together.
"""

from collections import deque

import torch

from bench.convergence.trials import SEEDS, STUDIES, WORKERS
from driftline.training.task import read_batch
from driftline.training.task.loading import load_task
from driftline.training.task.parts import build_model
from driftline.training.task.randomness import set_torch_defaults
from driftline.training.worker.order import raw_keys

STEPS = 100
LATE = (0, 1, 2)
RATES = (1.0, 1 / 4, 1 / 16)


def loss_after(late: int, rate: float, seed: int) -> float:
    """Return the held-out loss after so many steps, each with the gradient of ``late`` steps ago."""
    study = STUDIES["fashion"]
    task = load_task(study.name, {**study.settings, "learning_rate": str(study.rate * rate)})
    model, train, test = build_model(task, seed), task.data("train"), task.data("test")
    optimizer = task.optimizer(model)
    size = task.batch_size * len(WORKERS)
    order = raw_keys(STEPS * size, "late", seed) % len(train)
    waiting: deque[list[torch.Tensor]] = deque()
    for step in range(STEPS):
        loss, _ = task.loss(model, read_batch(task, train, order[step * size : (step + 1) * size]))
        waiting.append(list(torch.autograd.grad(loss, list(model.parameters()))))
        if len(waiting) > late:
            for parameter, gradient in zip(model.parameters(), waiting.popleft(), strict=True):
                parameter.grad = gradient
            optimizer.step()
    with torch.no_grad():
        return task.metrics(model, [read_batch(task, test, range(len(test)))])["loss"]


def main() -> None:
    """Print the median, the least and the most loss over the seeds."""
    set_torch_defaults()
    print("| steps late | " + " | ".join(f"rate {STUDIES['fashion'].rate * rate:.2g}" for rate in RATES) + " |")
    print("| --- " * (1 + len(RATES)) + "|")
    for late in LATE:
        cells = []
        for rate in RATES:
            losses = sorted(loss_after(late, rate, seed) for seed in SEEDS)
            cells.append(f"{losses[len(losses) // 2]:.2f} ({losses[0]:.2f}-{losses[-1]:.2f})")
        print(f"| {late} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
