"""Where reading begins, where it ends, and what happens when a position does not exist."""

import threading

import pytest

from driftline.broker.port import Bounds, EndReached, Position, PositionLost, Record, Start, Tail
from driftline.errors import TopicMissing
from tests.contract.support import Lab, collect, quiet, until, values_of, write

_TEN = [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("position", "first"),
    [
        (Start.BEGINNING, 0),
        (Start.END, 10),
        (Tail(3), 7),
        (Tail(10), 0),
        (Tail(11), 0),
        (Tail(0), 10),
        (4, 4),
        (10, 10),
    ],
)
def test_reading_starts_at_the_given_position(lab: Lab, position: Position, first: int) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    write(producer, topic, 0, *_TEN)
    assert reader.read(topic, 0, position) == first
    write(producer, topic, 0, b"later")
    assert values_of(reader, 11 - first) == [*_TEN, b"later"][first:]


def test_the_end_is_returned_each_time_it_is_reached(lab: Lab) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    reader.read(topic, 0, Start.BEGINNING)
    assert until(reader, EndReached) == EndReached(topic, 0, 0)
    assert reader.poll(0.3) is None
    write(producer, topic, 0, b"a", b"b")
    assert values_of(reader, 2) == [b"a", b"b"]
    assert until(reader, EndReached) == EndReached(topic, 0, 2)
    assert reader.poll(0.3) is None


def test_a_partition_with_a_permanent_writer_has_an_end_too(lab: Lab) -> None:
    """A new reader waits only for the records that were there when it began; the end comes before the writer stops."""
    topic, producer, reader, stop = lab.topic(), lab.producer(), lab.reader(), threading.Event()
    write(producer, topic, 0, *_TEN)

    def keep_writing() -> None:
        while not stop.wait(0.01):
            producer.send(topic, 0, b"more")
            producer.poll()

    writing = threading.Thread(target=keep_writing)
    writing.start()
    try:
        for _ in range(3):
            reader.read(topic, 0, Start.BEGINNING)
            assert until(reader, EndReached).offset >= 10
    finally:
        stop.set()
        writing.join()


def test_the_end_of_one_partition_says_nothing_about_another(lab: Lab) -> None:
    topic, producer, reader = lab.topic(partitions=2), lab.producer(), lab.reader()
    write(producer, topic, 1, b"a")
    reader.read(topic, 0, Start.BEGINNING)
    reader.read(topic, 1, Start.BEGINNING)
    assert {(end.partition, end.offset) for end in collect(reader, 2, EndReached)} == {(0, 0), (1, 1)}


def test_reading_again_starts_at_the_new_position(lab: Lab) -> None:
    topic, producer, reader = lab.topic(), lab.producer(), lab.reader()
    write(producer, topic, 0, *_TEN)
    reader.read(topic, 0, Start.BEGINNING)
    assert values_of(reader, 3) == _TEN[:3]
    reader.read(topic, 0, 8)
    assert values_of(reader, 2) == _TEN[8:]
    reader.read(topic, 0, 1)
    assert values_of(reader, 9) == _TEN[1:]
    assert until(reader, EndReached).offset == 10


def test_a_stopped_partition_returns_nothing_and_others_go_on(lab: Lab) -> None:
    topic, producer, reader = lab.topic(partitions=2), lab.producer(), lab.reader()
    write(producer, topic, 0, *_TEN)
    reader.read(topic, 0, Start.BEGINNING)
    reader.read(topic, 1, Start.BEGINNING)
    until(reader, Record)
    reader.stop(topic, 0)
    reader.stop(topic, 0)
    quiet(reader)
    write(producer, topic, 1, b"other")
    assert values_of(reader, 1) == [b"other"]


def test_a_reader_of_several_topics_gets_all_of_them(lab: Lab) -> None:
    topics, producer, reader = [lab.topic(), lab.topic()], lab.producer(), lab.reader()
    for topic in topics:
        reader.read(topic, 0, Start.BEGINNING)
        write(producer, topic, 0, topic.encode())
    assert set(values_of(reader, 2)) == {topic.encode() for topic in topics}


@pytest.mark.parametrize("offset", [2, 11])
def test_a_position_that_the_log_does_not_hold_is_refused_with_what_it_holds(lab: Lab, offset: int) -> None:
    topic, producer, reader, admin = lab.topic(), lab.producer(), lab.reader(), lab.admin()
    write(producer, topic, 0, *_TEN)
    admin.trim(topic, {0: 5})
    with pytest.raises(PositionLost, match=rf"{topic}\[0\] has no offset {offset}.*5 up to 10") as caught:
        reader.read(topic, 0, offset)
    assert caught.value.bounds == Bounds(5, 10)


def test_a_position_deleted_while_reading_is_an_error_and_others_are_read_on(lab: Lab) -> None:
    topic, producer, reader, admin = lab.topic(partitions=2), lab.producer(), lab.reader(), lab.admin()
    # More than a reader fetches ahead, so that the trimming overtakes it.
    write(producer, topic, 0, *[bytes(900_000)] * 12)
    reader.read(topic, 1, Start.BEGINNING)
    until(reader, EndReached)
    reader.read(topic, 0, 0)
    until(reader, Record)
    admin.trim(topic, {0: 11})
    with pytest.raises(PositionLost) as caught:
        collect(reader, 12, Record)
    assert (caught.value.topic, caught.value.partition) == (topic, 0)
    assert 0 < caught.value.position < 11
    assert caught.value.bounds == Bounds(11, 12)
    write(producer, topic, 1, b"other")
    assert values_of(reader, 1) == [b"other"]
    reader.read(topic, 0, 11)
    assert until(reader, Record).offset == 11


@pytest.mark.parametrize("partition", [0, 7])
def test_a_missing_topic_or_partition_is_refused_by_name(lab: Lab, partition: int) -> None:
    reader = lab.reader()
    topic = lab.unique("missing") if partition == 0 else lab.topic()
    with pytest.raises(TopicMissing, match=topic):
        reader.read(topic, partition, Start.BEGINNING)


def test_a_topic_that_is_deleted_while_it_is_read_is_reported(lab: Lab) -> None:
    topic, reader, admin = lab.topic(), lab.reader(), lab.admin()
    reader.read(topic, 0, Start.BEGINNING)
    until(reader, EndReached)
    admin.delete([topic])
    with pytest.raises(TopicMissing, match=topic):
        until(reader, Record)


def test_partitions_can_be_read_as_soon_as_they_exist(lab: Lab) -> None:
    topics = [lab.topic(partitions=4) for _ in range(5)]
    reader = lab.reader()
    for topic in topics:
        for partition in range(4):
            reader.read(topic, partition, 0)
    producer = lab.producer()
    for topic in topics:
        write(producer, topic, 3, b"first")
    assert values_of(reader, len(topics)) == [b"first"] * len(topics)
