"""Which processes a run on one machine has, their command lines, and the folder of their logs."""

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.broker.embedded.files import FileLock
from driftline.config.run_settings import RunSettings
from driftline.errors import UsageError
from driftline.telemetry.exporting import Address, address_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start.

    Attributes:
        task: name of the task on the command line.
        task_settings: name → text.
        servers: names of the server processes.
        workers: names of the worker processes.
        bootstrap_servers: Kafka's address for every process.
        environment: variables for every process; secrets go here and never on a command line.
        logs: folder of the processes' logs.
        metrics: where the first server serves metrics; the other servers, the workers and the launcher itself have the
            next ports. None for nowhere.
    """

    task: str
    task_settings: Mapping[str, str] = field(default_factory=dict)
    settings: RunSettings
    servers: tuple[str, ...]
    workers: tuple[str, ...]
    bootstrap_servers: str
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: Path
    metrics: Address | None = None

    def server_command(self, name: str) -> list[str]:
        """Return the command line of one server."""
        return [
            *self._driftline("server"),
            self.settings.run,
            "--name",
            name,
            *self._metrics_options(name),
            *self._common_options(),
        ]

    def worker_command(self, name: str, mark: bytes = b"") -> list[str]:
        """Return the command line of one worker, with ``mark`` as the first bytes of its incarnations."""
        settings = self.settings
        length = ("--epochs", settings.epochs) if settings.steps is None else ("--steps", settings.steps)
        options = {
            "--run": settings.run,
            "--name": name,
            "--workers": settings.workers,
            length[0]: length[1],
            **_bound_options(settings),
            "--seed": settings.seed,
            "--partitions": settings.partitions,
            "--snapshot-every": settings.snapshot_every,
            "--retain": settings.retain,
            "--gone-after": settings.gone_after_ticks,
        }
        words = [word for option, value in options.items() for word in (option, str(value))]
        pairs = [word for key, value in self.task_settings.items() for word in ("--set", f"{key}={value}")]
        marked = ["--mark", mark.hex()] if mark else []
        words = [
            *self._driftline("worker"),
            *words,
            *pairs,
            *self._metrics_options(name),
            *self._common_options(),
            *marked,
        ]
        return [*words, "--", self.task]

    @property
    def evaluator(self) -> str:
        """Name of the evaluator in the launcher's own process."""
        return f"evaluator-{self.settings.run}"

    def addresses(self) -> dict[str, Address]:
        """Return where each process serves metrics, by its name; empty if none does."""
        if self.metrics is None:
            return {}
        host, first = self.metrics
        return {
            name: (host, first + place) for place, name in enumerate((*self.servers, *self.workers, self.evaluator))
        }

    def _metrics_options(self, name: str) -> list[str]:
        address = self.addresses().get(name)
        return [] if address is None else ["--metrics", address_text(address)]

    @staticmethod
    def _driftline(role: str) -> list[str]:
        return [sys.executable, "-m", "driftline", role]

    def _common_options(self) -> list[str]:
        return ["--bootstrap-servers", self.bootstrap_servers, "--stop-with-stdin"]


ALWAYS_GIVEN = ("mode", "staleness", "buffer", "weighting")
"""Bounds whose default on the command line depends on other bounds."""


def _bound_options(settings: RunSettings) -> dict[str, object]:
    """Return the options of drift bounds, rates and local work that differ from their defaults."""
    names = {"max_age_s": "max_age", "final": "final_rate", "steps": "local_steps"}
    names |= {"clock_s": "clock", "set_by": "schedule"}
    chosen = {
        names.get(field.name, field.name): getattr(section, field.name)
        for section in (settings.consistency, settings.schedule, settings.local)
        for field in dataclasses.fields(section)
        if field.name in ALWAYS_GIVEN or getattr(section, field.name) != field.default
    }
    if settings.local.steps > 1:
        chosen |= {"outer_lr": settings.outer_lr, "outer_momentum": settings.outer_momentum}
    return {f"--{name.replace('_', '-')}": value for name, value in chosen.items()}


def run_folder(home: Path, run: str) -> Path:
    """Return the folder of a run's logs; the name of a run is always a legal file name."""
    return home / "runs" / run


def lock_run(home: Path, run: str) -> FileLock | None:
    """Create the folder of a run, lock it, and return the lock; None if another ``train`` of this home holds it.

    Raises:
        UsageError: the folder cannot be created.
    """
    folder = run_folder(home, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}; --home names another folder") from error
    lock = FileLock(folder / "train.lock")
    return lock if lock.try_acquire() else None
