"""The faults of the in-memory broker work as documented, and nothing depends on the machine's clock."""

import pytest

from driftline.broker.port import Assigned, EndReached, PositionLost, Record, Revoked, Start, TopicSpec
from driftline.errors import BrokerError, BrokerUnreachable, DeliveryFailed
from driftline.testing import ManualClock
from driftline.testing.memory import MemoryBroker


def _broker(clock: ManualClock | None = None, *, partitions: int = 1, queue_bytes: int = 1 << 20) -> MemoryBroker:
    broker = MemoryBroker((clock or ManualClock()).now_s, delivery_timeout_s=10.0, queue_bytes=queue_bytes)
    broker.admin().create([TopicSpec("t", partitions)])
    return broker


def _values(broker: MemoryBroker) -> list[bytes | None]:
    reader = broker.reader()
    reader.read("t", 0, Start.BEGINNING)
    values = []
    while isinstance(event := reader.poll(0), Record):
        values.append(event.value)
    return values


def test_append_times_follow_the_given_clock() -> None:
    clock = ManualClock(50.0)
    broker = _broker(clock)
    producer = broker.producer()
    producer.send("t", 0, b"a")
    clock.advance(1.5)
    producer.send("t", 0, b"b")
    times_ms = [record.timestamp_ms for offset in (0, 1) if (record := broker.log.read("t", 0, offset))]
    assert times_ms == [0, 1500]


@pytest.mark.parametrize("landed", [True, False])
def test_a_failed_send_is_in_the_log_only_if_it_landed(*, landed: bool) -> None:
    broker = _broker()
    producer = broker.producer()
    errors: list[BrokerError | None] = []
    broker.fail_next_sends(1, landed=landed)
    for value in (b"a", b"b"):
        producer.send("t", 0, value, on_delivery=errors.append)
    producer.flush(0)
    assert isinstance(errors[0], DeliveryFailed)
    assert errors[1] is None
    assert _values(broker) == ([b"a", b"b"] if landed else [b"b"])


def test_records_sent_while_the_broker_is_away_arrive_in_order_later() -> None:
    broker = _broker()
    producer, reader = broker.producer(), broker.reader()
    reader.read("t", 0, Start.BEGINNING)
    broker.go_away()
    for value in (b"a", b"b"):
        producer.send("t", 0, value)
    assert producer.flush(0) == 2
    assert reader.poll(0) is None
    with pytest.raises(BrokerUnreachable):
        broker.check(1.0)
    broker.come_back()
    assert producer.flush(0) == 0
    assert _values(broker) == [b"a", b"b"]


def test_a_record_that_waits_too_long_fails_and_never_lands() -> None:
    clock = ManualClock()
    broker = _broker(clock)
    producer = broker.producer()
    errors: list[BrokerError | None] = []
    broker.go_away()
    producer.send("t", 0, b"late", on_delivery=errors.append)
    clock.advance(10.0)
    broker.come_back()
    producer.poll()
    assert isinstance(errors[0], DeliveryFailed)
    assert _values(broker) == []


def test_a_full_queue_refuses_after_its_time_out_and_queues_nothing() -> None:
    # The queue waits for room in real time; on the clock of the records that fill it nothing passes.
    broker = MemoryBroker(ManualClock().now_s, delivery_timeout_s=0.1, queue_bytes=100)
    broker.admin().create([TopicSpec("t", 1)])
    producer = broker.producer()
    broker.go_away()
    producer.send("t", 0, bytes(80))
    with pytest.raises(DeliveryFailed, match="100 bytes stayed full"):
        producer.send("t", 0, bytes(80))
    broker.come_back()
    assert _values(broker) == [bytes(80)]


def test_an_expired_member_loses_its_partitions_and_the_other_gets_them() -> None:
    broker = _broker(partitions=2)
    first, second = (broker.group_reader("t", "g", name, Start.END) for name in ("a", "b"))
    assert first.poll(0) == Assigned((0, 1))
    assert second.poll(0) is None
    assert first.poll(0) == Revoked((1,), lost=False)
    broker.expire_member("t", "g", "a")
    assert second.poll(0) == Assigned((0, 1))
    assert first.poll(0) == Revoked((0,), lost=True)


def test_a_position_trimmed_away_while_reading_is_one_error() -> None:
    broker = _broker()
    producer, reader = broker.producer(), broker.reader()
    for value in (b"a", b"b", b"c"):
        producer.send("t", 0, value)
    reader.read("t", 0, 0)
    broker.trim("t", 0, 2)
    with pytest.raises(PositionLost):
        reader.poll(0)
    assert reader.poll(0) is None


def test_compaction_of_the_tail_still_leads_to_the_end() -> None:
    broker = _broker()
    producer, reader = broker.producer(), broker.reader()
    for value in (b"a", None):
        producer.send("t", 0, value, key=b"k")
    reader.read("t", 0, 0)
    broker.compact("t", 0, drop_tombstones=True)
    assert reader.poll(0) == EndReached("t", 0, 2)
