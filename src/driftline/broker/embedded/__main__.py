"""Make the ahead-of-time cache in the background, out of the way: ``python -m driftline.broker.embedded``."""

import contextlib
import os
import signal
import sys

from driftline.broker.embedded.prepare import prepare
from driftline.errors import EmbeddedBrokerError

_DEADLINE_S = 600


def main() -> None:
    """Let go of the caller, then prepare with what processor time nobody else wants."""
    if os.fork():
        return
    os.setsid()
    # The default action of SIGALRM ends this process, and with it the throw-away broker, whatever it waits for.
    signal.alarm(_DEADLINE_S)
    os.nice(19)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(EmbeddedBrokerError):
        prepare()


if __name__ == "__main__":
    main()
