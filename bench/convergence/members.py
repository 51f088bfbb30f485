"""Processes that live for many runs: importing torch once a run would take longer than the run.

Each is a worker or a server of one run after the other, by the same functions that the commands call.
"""

import multiprocessing
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Self, TypeAlias

from bench.convergence.paced import Paced
from bench.convergence.trials import WORKERS, Trial
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Broker
from driftline.consumers.server.serving import serve
from driftline.training.task import Dataset
from driftline.training.task.loading import load_task
from driftline.training.task.worker import work

SERVER = "server-1"
ANSWER_S = 120.0
"""How long a member may take to end its part of a run."""


@dataclass(frozen=True, slots=True)
class Job:
    """A part in one run."""

    trial: Trial
    run: str
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a member says after its part.

    Attributes:
        problem: why it failed; empty if it did not.
        waiting_share: of a worker's time from its first gradient to the end, from 0 to 1.
        gradient_s: a worker's mean time of a gradient, the pause included.
    """

    problem: str = ""
    waiting_share: float = 0.0
    gradient_s: float = 0.0


class Stop(threading.Event):
    """A stop that knows when it was set, in seconds of the monotonic clock."""

    at_s = 0.0

    def set(self) -> None:
        """Set it."""
        self.at_s = time.monotonic()
        super().set()


Play: TypeAlias = Callable[[str, Job, Broker, Stop], Report]


class Members:
    """All members: a context manager. They end with it, and with this process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._links: dict[str, Connection] = {}
        self._processes = []
        for name in (SERVER, *WORKERS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_live, args=(name, theirs), name=name, daemon=True)
            process.start()
            theirs.close()
            self._links[name] = ours
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links.values():
            link.close()
        for process in self._processes:
            process.join(5.0)

    def begin(self, job: Job) -> None:
        """Start the work of all members on a run."""
        for link in self._links.values():
            link.send(job)

    def check(self) -> None:
        """Raise if a member has failed already.

        Raises:
            RuntimeError: says who, and why.
        """
        for name, link in self._links.items():
            if link.poll():
                self._report(name)

    def end(self) -> dict[str, Report]:
        """Let the workers leave, and then the server; return what they say.

        Raises:
            RuntimeError: a member failed.
        """
        return self._end(WORKERS) | self._end((SERVER,))

    def _end(self, names: Sequence[str]) -> dict[str, Report]:
        for name in names:
            self._links[name].send("stop")
        return {name: self._report(name) for name in names}

    def _report(self, name: str) -> Report:
        if not self._links[name].poll(ANSWER_S):
            raise RuntimeError(f"{name} did not end within {ANSWER_S:.0f} s")
        report: Report = self._links[name].recv()
        if report.problem:
            raise RuntimeError(f"{name} failed: {report.problem}")
        return report


def _live(name: str, link: Connection) -> None:
    """Take part in one run after the other, until the other end is closed."""
    play: Play = _serve if name == SERVER else _Worker()
    while True:
        try:
            job = link.recv()
        except EOFError:
            return
        stop = Stop()
        waiting = threading.Thread(target=_wait, args=(link, stop), daemon=True)
        waiting.start()
        try:
            report = play(name, job, KafkaBroker(KafkaSettings(job.bootstrap_servers)), stop)
        except Exception:  # noqa: BLE001 - sent to the parent process
            report = Report(traceback.format_exc())
        waiting.join()
        link.send(report)


def _wait(link: Connection, stop: Stop) -> None:
    with suppress(EOFError):
        link.recv()
    stop.set()


def _serve(name: str, job: Job, broker: Broker, stop: Stop) -> Report:
    finish = serve(broker, job.run, name, stop=stop)
    return Report(finish.failure)


class _Worker:
    """A worker of many runs, which reads the data of each task once."""

    def __init__(self) -> None:
        self._data: dict[str, Dataset] = {}

    def __call__(self, name: str, job: Job, broker: Broker, stop: Stop) -> Report:
        trial = job.trial
        task = load_task(trial.study.name, trial.task_settings)
        data = self._data.get(trial.study.name)
        if data is None:
            task.prepare()
            data = self._data[trial.study.name] = task.data("train")
        paced = Paced(task, trial.pause_s(name), data, stop)
        finish = work(broker, trial.run_settings(job.run), name, paced, stop=stop)
        paced.settle()
        return Report(finish.failure, _waiting_share(paced, stop.at_s), paced.busy_s / max(paced.gradients, 1))


def _waiting_share(paced: Paced, until_s: float) -> float:
    if paced.first_s is None or until_s <= paced.first_s:
        return 1.0
    return max(0.0, 1.0 - paced.busy_s / (until_s - paced.first_s))
