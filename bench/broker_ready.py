"""Seconds from nothing but jars to a broker that answers a metadata request."""

import statistics
import time
from pathlib import Path

from driftline.broker.embedded import EmbeddedBroker


def broker_ready(home: Path, starts: int) -> dict[str, float]:
    """Start and stop an embedded broker; the first start formats its log directory and is not counted."""
    taken_s: list[float] = []
    for _ in range(starts + 1):
        broker = EmbeddedBroker(home)
        began_s = time.monotonic()
        broker.start()
        taken_s.append(time.monotonic() - began_s)
        broker.stop()
    counted = taken_s[1:]
    return {
        "broker_ready_s": statistics.median(counted),
        "broker_ready_s_min": min(counted),
        "broker_ready_s_max": max(counted),
        "broker_ready_first_s": taken_s[0],
    }
