"""Scripts that train over a broker in memory: a server on a thread, scripts on threads of their own."""

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn, optim

import driftline
from driftline.consumers.server.serving import serve
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.run_state import RunState
from driftline.testing.memory import MemoryBroker

URL = f"kafka://memory-{os.getpid()}/lines"
"""Its own for each process of a test command: names of workers are claimed on the whole machine."""
RUN = "lines"
DEADLINE_S = 100.0


class House:
    """A broker with one server for the run ``lines``."""

    def __init__(self) -> None:
        optim.SGD([nn.Parameter(torch.zeros(1))])  # the first optimizer of a process imports torch's compiler
        self.broker = MemoryBroker()
        self.stop = threading.Event()
        self._server = threading.Thread(target=self._serve, name="server", daemon=True)
        self._server.start()

    def _serve(self) -> None:
        serve(self.broker, RUN, "server-1", stop=self.stop, patience_s=math.inf)

    def optimizer(self, model: nn.Module, inner: optim.Optimizer | None = None, **more: Any) -> "driftline.Optimizer":
        """Make a member of the run."""
        more = {"worker": "ada", "timeout": DEADLINE_S, **more}
        inner = inner or optim.SGD(model.parameters(), lr=0.1)
        return driftline.Optimizer(inner, model, URL, broker=self.broker, **more)

    def ledger(self) -> RunState:
        """Read what is decided so far."""
        return read_ledger(self.broker, RUN)

    def close(self) -> None:
        """Stop the server."""
        self.stop.set()
        self._server.join(DEADLINE_S)


@contextmanager
def house() -> Iterator[House]:
    """Open a house for the length of a test."""
    one = House()
    try:
        yield one
    finally:
        one.close()


def line(seed: int = 0) -> nn.Linear:
    """Return a small model; another seed gives other weights."""
    torch.manual_seed(seed)
    return nn.Linear(3, 1)


def points() -> tuple[torch.Tensor, torch.Tensor]:
    """Return what it is fitted to."""
    inputs = torch.arange(36, dtype=torch.float32).reshape(12, 3) / 36
    return inputs, inputs.sum(dim=1, keepdim=True)


def loss_of(model: nn.Module) -> torch.Tensor:
    """Return the mean loss over all points."""
    inputs, heights = points()
    return nn.functional.mse_loss(model(inputs), heights)


def step(model: nn.Module, opt: optim.Optimizer, **more: Any) -> float:
    """Make one ordinary step, and return its loss."""
    opt.zero_grad()
    loss = loss_of(model)
    loss.backward()  # type: ignore[no-untyped-call]
    opt.step(**more)
    return float(loss.detach())


def together(*scripts: Callable[[], Any]) -> list[Any]:
    """Run scripts side by side, each on a thread; return what they return, or raise what one of them raised."""
    results: list[Any] = [None] * len(scripts)

    def run(place: int, script: Callable[[], Any]) -> None:
        try:
            results[place] = script()
        except BaseException as error:  # noqa: BLE001 - raised below
            results[place] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(scripts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S * 2)
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return results
