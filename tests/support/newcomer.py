"""A server that knows nothing but the log of a run, on the broker in memory."""

import random
import time

from driftline.consumers.server.server import Server
from driftline.consumers.server.serving import SERVER_GROUPS
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish
from driftline.testing.memory import MemoryBroker

DEADLINE_S = 30.0


def new_server(broker: MemoryBroker, run: str) -> Finish:
    """Let one come, and return how it ends."""
    rng = random.Random(1)  # noqa: S311 - a test
    shell = Shell(broker, run, Server("new", b"n" * 16, rng), "new", SERVER_GROUPS)
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        while shell.finished is None:
            assert time.monotonic() < deadline_s, "it waits for ever"
            shell.step(0.01)
        return shell.finished
    finally:
        shell.close()
