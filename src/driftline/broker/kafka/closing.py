"""Closes a client within a deadline, also when the broker is gone."""

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


def close_within(close: Callable[[], object], timeout_s: float, what: str) -> bool:
    """Run ``close`` on a thread of its own and wait for it; False if it is still not done after ``timeout_s`` seconds.

    librdkafka's close cannot be given a deadline. A thread that does not come back is a daemon, so it ends with the
    process at the latest.
    """
    thread = threading.Thread(target=_logged, args=(close, what), name=f"close {what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        _log.warning("%s did not close within %g s; it is left behind", what, timeout_s)
    return not thread.is_alive()


def _logged(close: Callable[[], object], what: str) -> None:
    try:
        close()
    except Exception:  # noqa: BLE001 - whatever it is, nobody waits for this thread's answer
        _log.exception("closing %s failed", what)
