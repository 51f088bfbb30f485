"""For tests of driftline and of programs that use it: brokers without a Kafka of your own, and runs in one process.

    MemoryBroker       a broker in this process's memory, with faults on request
    ManualClock        time for a ``MemoryBroker`` that a test advances
    train_in_process   trains a task of yours, with servers and workers in this process
    run_in_process     the same, with gradients of a function of yours and without torch
    running_broker     a real Kafka on this machine, for the length of a block

A ``MemoryBroker`` behaves as Kafka does where driftline depends on it:

>>> from driftline.broker.port import Record, Start, TopicSpec
>>> from driftline.testing import MemoryBroker
>>> broker = MemoryBroker()
>>> broker.admin().create([TopicSpec("readings", partitions=1)])
>>> producer, reader = broker.producer(), broker.reader()
>>> producer.send("readings", 0, b"21.5")
>>> reader.read("readings", 0, Start.BEGINNING)
0
>>> record = reader.poll(timeout_s=1.0)
>>> record.value
b'21.5'

Its faults show what your code does when Kafka fails:

>>> broker.fail_next_sends(1, landed=False)
>>> producer.send("readings", 0, b"22.0", on_delivery=print)
>>> producer.flush(timeout_s=1.0)
a record of 4 bytes for readings[0] may or may not be in the log
0

``go_away`` and ``come_back`` stop and restart the broker, ``expire_member`` removes a group member, ``trim`` and
``compact`` delete records as Kafka's retention and cleaner do.

A run needs no torch: a function computes the gradients of its workers, on a flat vector of float32.

>>> import numpy as np
>>> from driftline.producers.deltas import Gradient
>>> from driftline.producers.proposal import Offer
>>> from driftline.schemas.model.layout import Layout, Segment
>>> from driftline.schemas.run.config import RuleConfig, RunConfig
>>> from driftline.testing import run_in_process
>>> rule = RuleConfig(name="sgd", groups=({"lr": 0.5},))
>>> config = RunConfig(name="halve", workers=2, steps=3, partitions=1, rule=rule)
>>> layout = Layout((Segment("point", (), (2,), "float32", "parameter", 0, 0),), 1)
>>> offer = Offer(config=config, layout=layout, masters=np.array([8.0, 16.0], np.float32))
>>> def towards_zero(worker, model, clock):
...     return Gradient(flat=model.flat.copy(), presence=[True], weight=1.0, loss=0.0, cursor=clock)
>>> run_in_process(broker, offer, ["ada", "bob"], towards_zero).model.flat
array([1., 2.], dtype=float32)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driftline.broker.embedded import EmbeddedBroker
from driftline.producers.deltas import NoGradient
from driftline.testing.in_process import GradientFunction, LeasedGradients, Outcome, run_in_process, train_in_process
from driftline.testing.manual_clock import ManualClock
from driftline.testing.memory import MemoryBroker

__all__ = [
    "GradientFunction",
    "LeasedGradients",
    "ManualClock",
    "MemoryBroker",
    "NoGradient",
    "Outcome",
    "run_in_process",
    "running_broker",
    "train_in_process",
]


@contextmanager
def running_broker(home: Path) -> Iterator[str]:
    """Run an embedded broker under ``home`` and yield its bootstrap servers; it ends with the block or this process.

    The same home gives the same data again and, if its port is still free, the same address.

    Raises:
        EmbeddedBrokerError: it did not start; says why and what to do.
    """
    with EmbeddedBroker(home, prepare=False) as broker:
        yield broker.bootstrap_servers
