"""Kafka goes away and comes back: who waits for it goes on waiting."""

import threading
import time
from collections.abc import Callable

from driftline.broker.port import Start, TopicSpec
from driftline.broker.topics import run_topics
from driftline.consumers.server.serving import wait_for_run
from driftline.runtime.inflow import Inflow, Started
from driftline.runtime.pump import ReaderPump
from driftline.testing.memory import MemoryBroker

DEADLINE_S = 20.0


def later(act: Callable[[], object]) -> threading.Timer:
    """Do something in a moment."""
    timer = threading.Timer(0.7, act)
    timer.start()
    return timer


def test_a_reading_that_is_asked_for_during_an_outage_begins_after_it() -> None:
    """A server that is given a partition just then must not die of it."""
    broker, inflow = MemoryBroker(), Inflow()
    broker.admin().create([TopicSpec("topic", 1)])
    pump = ReaderPump("reader", broker.reader(), inflow)
    pump.start()
    broker.go_away()
    pump.read("topic", 0, Start.BEGINNING)
    assert inflow.get(0.3) is None
    broker.come_back()
    item = inflow.get(DEADLINE_S)
    assert item is not None
    assert item.event == Started("topic", 0, 0)
    assert pump.close(DEADLINE_S)


def test_a_server_that_waits_for_its_run_outlasts_an_outage() -> None:
    """Patience is what bounds the wait, not the first question without an answer."""
    broker, stop = MemoryBroker(), threading.Event()
    broker.go_away()
    back = later(broker.come_back)
    made = threading.Timer(1.0, lambda: broker.admin().create(run_topics("run", 1)))
    made.start()
    began_s = time.monotonic()
    assert wait_for_run(broker, "run", stop=stop, patience_s=DEADLINE_S)
    assert time.monotonic() - began_s > 0.5
    back.join()
    made.join()
