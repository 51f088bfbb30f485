"""``python -m tests.kills.dying_server RUN NAME BOOTSTRAP POINT NTH``: a server that kills itself.

It is the server of ``driftline server``, but for the SIGKILL that it sends itself.
"""

import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.consumers.server.server import Server
from driftline.consumers.server.serving import SERVER_GROUPS, wait_for_run
from driftline.rules import choose_engine
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Effect, Input
from tests.simulation.deaths.fault_points import Approach, FaultPoint, name_of_input

PATIENCE_S = 600.0


class DyingServer(Server):
    """Dies over the effects of some input."""

    def __init__(self, name: str, approach: Approach) -> None:
        super().__init__(name, os.urandom(16), random.Random(os.urandom(32)))  # noqa: S311 - as in serving
        self._approach = approach

    def on(self, event: Input) -> Iterator[Effect]:
        """Take one input, and perhaps die."""
        die = partial(os.kill, os.getpid(), signal.SIGKILL)
        return self._approach.until_death(name_of_input(event), super().on(event), die)


def main(arguments: list[str]) -> int:
    """Serve until the run ends or the point is reached."""
    run, name, bootstrap_servers, point, nth = arguments
    broker, stop = KafkaBroker(KafkaSettings(bootstrap_servers)), threading.Event()
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    choose_engine()
    wait_for_run(broker, run, stop=stop, patience_s=PATIENCE_S)
    shell = Shell(broker, run, DyingServer(name, Approach(FaultPoint[point], int(nth))), name, SERVER_GROUPS)
    try:
        finish = shell.run(stop)
    finally:
        shell.close()
    return 1 if finish.failure else 0


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
