"""A server and a worker as threads of the test, without torch: every layer below it is the real one."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from driftline.broker.port import Broker
from driftline.consumers.server.serving import serve
from driftline.errors import DriftlineError
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish
from tests.contract.test_runs import ones


@dataclass
class Ends:
    """How server and worker of one run ended; as soon as one has failed, the other is stopped."""

    finishes: dict[str, Finish] = field(default_factory=dict)
    errors: dict[str, DriftlineError] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    threads: list[threading.Thread] = field(default_factory=list)

    def play(self, server: Broker, worker: Broker, offer: Offer) -> None:
        """Start one server and one worker, each with a Kafka as it sees it."""
        run = offer.config.name
        roles: dict[str, Callable[[], Finish]] = {
            "server": lambda: serve(server, run, "server-1", stop=self.stop),
            "worker": lambda: work(worker, offer, self.stop),
        }
        self.threads = [threading.Thread(target=self.record, args=role, daemon=True) for role in roles.items()]
        for thread in self.threads:
            thread.start()

    def wait(self, timeout_s: float) -> None:
        """Wait until both have ended, or time is up."""
        deadline_s = time.monotonic() + timeout_s
        for thread in self.threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def record(self, role: str, run: Callable[[], Finish]) -> None:
        """Run a role to its end."""
        try:
            self.finishes[role] = run()
        except DriftlineError as error:
            self.errors[role] = error
            self.stop.set()


def work(broker: Broker, offer: Offer, stop: threading.Event) -> Finish:
    """Be a worker whose gradients are all one."""
    session = WorkerSession("worker-1", os.urandom(16), offer, os.urandom(16))
    shell = Shell(broker, offer.config.name, session, session.name)
    try:
        while shell.finished is None and not stop.is_set():
            shell.step(0.01)
            model = session.may_start()
            if model is not None:
                shell.perform(session.contribute(model, ones("worker-1", model, session.pace)))
        return shell.finished or Finish("stopped")
    finally:
        shell.close()
