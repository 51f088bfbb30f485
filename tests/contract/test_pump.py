"""Several readers flow into one loop: in order, bounded, and never silently dead."""

import time
from collections.abc import Callable

import pytest

from driftline.broker.port import Assigned, EndReached, PositionLost, Record, Revoked, Start
from driftline.errors import BrokerError, TopicMissing
from driftline.runtime.inflow import Event, Failed, Inflow, NotStarted, Pumped, Started, Stopped
from driftline.runtime.pump import GroupPump, ReaderPump
from tests.contract.support import DEADLINE_S, Lab, write


def _reader_pump(lab: Lab, inflow: Inflow, name: str = "reader") -> ReaderPump:
    pump = ReaderPump(name, lab.broker.reader(), inflow)
    lab.closers.append(pump.close)
    pump.start()
    return pump


def _group_pump(
    lab: Lab, topic: str, inflow: Inflow, name: str = "group", group: str = "", *, held: bool = False
) -> GroupPump:
    reader = lab.broker.group_reader(topic, group or lab.unique("group"), name, Start.BEGINNING)
    pump = GroupPump(name, reader, inflow, held=held)
    lab.closers.append(pump.close)
    pump.start()
    return pump


def _take(inflow: Inflow, enough: Callable[[list[Pumped]], bool]) -> list[Pumped]:
    taken: list[Pumped] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while not enough(taken):
        assert time.monotonic() < deadline_s, f"the inflow gave only {taken[-5:]}"
        item = inflow.get(0.1)
        if item is not None:
            taken.append(item)
    return taken


def _take_until(inflow: Inflow, kind: type[Event]) -> list[Event]:
    return [item.event for item in _take(inflow, lambda taken: bool(taken) and isinstance(taken[-1].event, kind))]


def _records(events: list[Event]) -> list[bytes | None]:
    return [event.value for event in events if isinstance(event, Record)]


def test_records_come_between_what_started_and_what_stopped_them(lab: Lab) -> None:
    topic, producer, inflow = lab.topic(), lab.producer(), Inflow()
    write(producer, topic, 0, b"a", b"b", b"c")
    pump = _reader_pump(lab, inflow)
    pump.read(topic, 0, 1)
    first = _take_until(inflow, EndReached)
    assert first[0] == Started(topic, 0, 1)
    assert _records(first) == [b"b", b"c"]
    pump.read(topic, 0, Start.BEGINNING)
    second = _take_until(inflow, EndReached)
    assert second[0] == Started(topic, 0, 0)
    assert _records(second) == [b"a", b"b", b"c"]
    pump.stop(topic, 0)
    assert _take_until(inflow, Stopped) == [Stopped(topic, 0)]
    write(producer, topic, 0, b"d")
    assert inflow.get(0.3) is None


def test_items_say_which_pump_they_come_from(lab: Lab) -> None:
    topics, producer, inflow = {"one": lab.topic(), "two": lab.topic()}, lab.producer(), Inflow()
    for name, topic in topics.items():
        _reader_pump(lab, inflow, name).read(topic, 0, Start.BEGINNING)
        write(producer, topic, 0, name.encode())
    taken = _take(inflow, lambda taken: sum(isinstance(item.event, Record) for item in taken) == 2)
    assert {item.pump: item.event.value for item in taken if isinstance(item.event, Record)} == {
        "one": b"one",
        "two": b"two",
    }


def test_an_error_of_one_partition_is_reported_and_the_pump_goes_on(lab: Lab) -> None:
    topic, producer, inflow = lab.topic(), lab.producer(), Inflow()
    pump = _reader_pump(lab, inflow)
    pump.read(lab.unique("missing"), 0, Start.BEGINNING)
    pump.read(topic, 0, 5)
    pump.read(topic, 0, 0)
    write(producer, topic, 0, b"a")
    events = _take_until(inflow, Record)
    refusals = [event for event in events if isinstance(event, NotStarted)]
    assert [type(refusal.error) for refusal in refusals] == [TopicMissing, PositionLost]


def test_what_breaks_a_reader_ends_its_pump_with_a_last_word(lab: Lab) -> None:
    inflow, reader = Inflow(), lab.broker.reader()
    pump = ReaderPump("broken", reader, inflow)
    reader.close()
    pump.start()
    last = inflow.get(DEADLINE_S)
    assert last is not None
    assert isinstance(last.event, Failed)
    assert isinstance(last.event.error, BrokerError)
    assert last.event.over
    assert pump.close()


def test_a_slow_loop_holds_a_reader_back_and_loses_nothing(lab: Lab) -> None:
    topic, producer, inflow = lab.topic(), lab.producer(), Inflow(max_items=10)
    sent = [b"%d" % number for number in range(200)]
    write(producer, topic, 0, *sent)
    _reader_pump(lab, inflow).read(topic, 0, Start.BEGINNING)
    time.sleep(0.3)
    assert len(inflow) <= 10
    assert _records(_take_until(inflow, EndReached)) == sent


def test_a_group_whose_loop_stalls_stays_in_the_group_and_hands_over(lab: Lab) -> None:
    topic, producer, inflow = lab.topic(partitions=2), lab.producer(), Inflow(max_items=10)
    for partition in (0, 1):
        write(producer, topic, partition, *[b"%d" % number for number in range(100)])
    group, other = lab.unique("group"), Inflow()
    _group_pump(lab, topic, inflow, "stalled", group)
    time.sleep(0.2)
    # The second member gets its share although nothing is taken from the first one's inflow: it is still polled.
    _group_pump(lab, topic, other, "newcomer", group)
    share = _take_until(other, Assigned)[-1]
    assert isinstance(share, Assigned)
    assert len(share.partitions) == 1
    assert len(inflow) <= 10
    events = _take_until(inflow, Revoked)
    kept = ({0, 1} - set(share.partitions)).pop()
    rest = _take(inflow, lambda taken: any(isinstance(each.event, EndReached) for each in taken))
    numbers = [
        event.value
        for event in [*events, *(item.event for item in rest)]
        if isinstance(event, Record) and event.partition == kept
    ]
    assert numbers == [b"%d" % number for number in range(100)]


def test_nothing_of_a_held_partition_comes_before_it_is_asked_for(lab: Lab) -> None:
    """However much of it is there, and however long the records of another partition wait."""
    topic, producer, inflow = lab.topic(partitions=2), lab.producer(), Inflow(max_items=10)
    sent = {partition: [b"%d-%d" % (partition, number) for number in range(50)] for partition in (0, 1)}
    for partition, values in sent.items():
        write(producer, topic, partition, *values)
    pump = _group_pump(lab, topic, inflow, held=True)
    _take_until(inflow, Assigned)
    assert inflow.get(0.5) is None
    pump.resume([1])
    time.sleep(1.5)  # the inflow is full, so the pump pauses everything, and later resumes what was asked for
    assert _records(_take_until(inflow, EndReached)) == sent[1]
    assert inflow.get(0.5) is None
    pump.resume([0])
    assert _records(_take_until(inflow, EndReached)) == sent[0]


def test_closing_ends_the_thread_also_when_the_inflow_is_full(lab: Lab) -> None:
    topic, producer, inflow = lab.topic(), lab.producer(), Inflow(max_items=1)
    write(producer, topic, 0, b"a", b"b", b"c")
    pump = _reader_pump(lab, inflow)
    pump.read(topic, 0, Start.BEGINNING)
    time.sleep(0.2)
    assert pump.close(DEADLINE_S)
    assert pump.close(DEADLINE_S)


@pytest.mark.parametrize(("size", "fit"), [(100, 3), (5000, 1)])
def test_an_inflow_is_bounded_in_bytes_but_takes_one_item_of_any_size(size: int, fit: int) -> None:
    inflow = Inflow(max_bytes=1200)
    item = Pumped("p", Record("t", 0, 0, None, bytes(size), 0))
    assert [inflow.put(item) for _ in range(5)] == [True] * fit + [False] * (5 - fit)
    assert inflow.get(0) == item
    assert inflow.put(item)
