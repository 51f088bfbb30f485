"""Which processes a run on one machine has, their command lines, and the folder of their logs."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.broker.embedded.files import FileLock
from driftline.config.keys import RUN, RUN_NAME
from driftline.config.run_settings import RunSettings
from driftline.errors import UsageError
from driftline.telemetry.exporting import Address, address_text

_DRIFTLINE = (sys.executable, "-m", "driftline")


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
        return [*_DRIFTLINE, "server", self.settings.run, "--name", name, *self._process_options(name)]

    def worker_command(self, name: str, mark: bytes = b"") -> list[str]:
        """Return the command line of one worker, with ``mark`` as the first bytes of its incarnations."""
        values = {key: key.of(self.settings) for key in (RUN_NAME, *RUN)}
        given = {key.option: value for key, value in values.items() if value or not (value is None or key.setting.zero)}
        words = [word for option, value in given.items() for word in (option, str(value))]
        pairs = [word for key, value in self.task_settings.items() for word in ("--set", f"{key}={value}")]
        marked = ["--mark", mark.hex()] if mark else []
        words += [*pairs, *self._process_options(name), *marked]
        return [*_DRIFTLINE, "worker", "--name", name, *words, "--", self.task]

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

    def _process_options(self, name: str) -> list[str]:
        address = self.addresses().get(name)
        metrics = [] if address is None else ["--metrics", address_text(address)]
        return [*metrics, "--bootstrap-servers", self.bootstrap_servers, "--stop-with-stdin"]


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
