"""For tests of driftline and of programs that use it: brokers that need no Kafka of your own.

    MemoryBroker     a broker in this process's memory, with faults on request
    ManualClock      time for a ``MemoryBroker`` that a test advances
    running_broker   a real Kafka on this machine, for the length of a block

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
"""

from driftline.broker.memory import MemoryBroker
from driftline.testing.broker import running_broker
from driftline.testing.manual_clock import ManualClock

__all__ = ["ManualClock", "MemoryBroker", "running_broker"]
