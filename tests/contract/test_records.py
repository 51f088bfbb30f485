"""A record is read as it was written, once, and in order."""

from functools import partial

import numpy as np
import pytest

from driftline.broker.port import MAX_RECORD_BYTES, Record, Start
from driftline.errors import BrokerError, TopicMissing
from tests.contract.support import DEADLINE_S, Lab, collect, until, values_of, write


def test_records_come_in_the_order_in_which_they_were_sent(lab: Lab) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    sent = [b"%d" % number for number in range(500)]
    write(producer, topic, 0, *sent)
    reader.read(topic, 0, Start.BEGINNING)
    records = collect(reader, len(sent), Record)
    assert [record.value for record in records] == sent
    assert [record.offset for record in records] == list(range(len(sent)))


def test_append_times_come_from_the_broker_and_never_decrease(lab: Lab) -> None:
    topic, producer, reader = (
        lab.topic(config={"message.timestamp.type": "LogAppendTime"}),
        lab.producer(),
        lab.reader(),
    )
    for value in (b"a", b"b", b"c"):
        write(producer, topic, 0, value)
    reader.read(topic, 0, Start.BEGINNING)
    times_ms = [record.timestamp_ms for record in collect(reader, 3, Record)]
    assert times_ms == sorted(times_ms)
    assert times_ms[0] > 1_500_000_000_000


def test_null_empty_and_binary_keys_and_values_stay_apart(lab: Lab) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    pairs = [(None, None), (None, b""), (b"", None), (b"", b""), (b"k", None), (None, b"v"), (b"\x00\xff", b"\x00\xff")]
    for key, value in pairs:
        write(producer, topic, 0, value, key=key)
    reader.read(topic, 0, Start.BEGINNING)
    assert [(record.key, record.value) for record in collect(reader, len(pairs), Record)] == pairs


def test_an_array_is_sent_as_its_bytes_and_its_buffer_is_free_at_once(lab: Lab) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    values = np.arange(1000, dtype=np.float32)
    expected = values.tobytes()
    producer.send(topic, 0, values.view(np.uint8))
    values.fill(-1)
    assert producer.flush(DEADLINE_S) == 0
    reader.read(topic, 0, Start.BEGINNING)
    assert until(reader, Record).value == expected


def test_a_strided_array_is_refused_before_anything_is_sent(lab: Lab) -> None:
    topic, producer = lab.topic(), lab.producer()
    with pytest.raises(TypeError, match="C-contiguous uint8"):
        producer.send(topic, 0, np.zeros((4, 4), np.uint8)[:, ::2])
    with pytest.raises(TypeError, match="float32"):
        producer.send(topic, 0, np.zeros(4, np.float32))


@pytest.mark.parametrize("key", [None, b"key"])
def test_a_record_of_exactly_the_limit_is_kept(lab: Lab, key: bytes | None) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    value = np.random.default_rng(7).integers(0, 256, MAX_RECORD_BYTES - len(key or b""), np.uint8)
    write(producer, topic, 0, value, key=key)
    reader.read(topic, 0, Start.BEGINNING)
    assert values_of(reader, 1) == [value.tobytes()]


@pytest.mark.parametrize("key", [None, b"key"])
def test_a_record_one_byte_over_the_limit_is_refused_with_both_sizes(lab: Lab, key: bytes | None) -> None:
    topic, producer = lab.topic(), lab.producer()
    value = bytes(MAX_RECORD_BYTES + 1 - len(key or b""))
    with pytest.raises(BrokerError, match=rf"{topic}\[0\] has {MAX_RECORD_BYTES + 1} bytes.* {MAX_RECORD_BYTES}"):
        producer.send(topic, 0, value, key=key)
    write(producer, topic, 0, b"the producer goes on")


def test_every_record_gets_one_callback_and_they_come_in_order(lab: Lab) -> None:
    topic, producer = lab.topic(), lab.producer()
    acknowledged: list[int] = []

    def note(number: int, error: BrokerError | None) -> None:
        assert error is None
        acknowledged.append(number)

    for number in range(100):
        producer.send(topic, 0, b"x", on_delivery=partial(note, number))
    assert producer.flush(DEADLINE_S) == 0
    assert acknowledged == list(range(100))
    assert producer.poll() == 0


def test_a_callback_may_send(lab: Lab) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    producer.send(topic, 0, b"first", on_delivery=lambda _: producer.send(topic, 0, b"second"))
    while producer.flush(DEADLINE_S):
        pass
    reader.read(topic, 0, Start.BEGINNING)
    assert values_of(reader, 2) == [b"first", b"second"]
    assert producer.flush(DEADLINE_S) == 0


def test_a_record_for_a_missing_topic_fails_by_name(lab: Lab) -> None:
    producer, missing = lab.producer(), lab.unique("missing")
    errors: list[BrokerError | None] = []
    producer.send(missing, 0, b"x", on_delivery=errors.append)
    assert producer.flush(DEADLINE_S) == 0
    assert len(errors) == 1
    assert isinstance(errors[0], TopicMissing)
    assert missing in str(errors[0])


def test_a_record_for_a_missing_partition_fails_by_name(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), lab.producer()
    write(producer, topic, 0, b"x")
    errors: list[BrokerError | None] = []
    try:
        producer.send(topic, 2, b"x", on_delivery=errors.append)
    except TopicMissing as error:
        errors.append(error)
    assert producer.flush(DEADLINE_S) == 0
    assert len(errors) == 1
    assert isinstance(errors[0], TopicMissing)
    assert f"{topic}[2]" in str(errors[0]) or f"{topic} has 2 partitions" in str(errors[0])


def test_on_appended_gets_the_offset_of_each_acknowledged_record(lab: Lab) -> None:
    """It is not called for a record that failed."""
    topic, producer = lab.topic(partitions=1), lab.producer()
    offsets: list[int] = []
    for _ in range(3):
        producer.send(topic, 0, b"x", on_appended=offsets.append)
    assert producer.flush(DEADLINE_S) == 0
    assert offsets == [0, 1, 2]
    producer.send(lab.unique("missing"), 0, b"x", on_appended=offsets.append, on_delivery=lambda _: None)
    producer.flush(DEADLINE_S)
    assert offsets == [0, 1, 2]
