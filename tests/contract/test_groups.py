"""A group assigns partitions to its members, and moves them without losing or repeating a hand-over."""

from collections.abc import Callable

import pytest

from driftline.broker.port import Assigned, EndReached, GroupReader, PositionLost, Record, Revoked, Start
from driftline.errors import TopicMissing
from tests.contract.support import Lab, collect, next_event, quiet, settle, until, values_of, write

pytestmark = pytest.mark.parametrize(
    "lab",
    ["memory", *(pytest.param(one, marks=pytest.mark.kafka) for one in ("classic", "consumer"))],
    indirect=True,
)

Join = Callable[[str], GroupReader]


def _joiner(lab: Lab, topic: str, start: Start = Start.BEGINNING) -> Join:
    group = lab.unique("group")
    return lambda member: lab.keep(lab.broker.group_reader(topic, group, member, start))


def test_a_sole_member_gets_every_partition_before_any_record(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=3), lab.producer()
    for partition in range(3):
        write(producer, topic, partition, b"%d" % partition)
    reader = _joiner(lab, topic)("a")
    assert next_event(reader) == Assigned((0, 1, 2))
    events = [next_event(reader) for _ in range(6)]
    assert sorted(event.value or b"" for event in events if isinstance(event, Record)) == [b"0", b"1", b"2"]
    assert sorted(event.partition for event in events if isinstance(event, EndReached)) == [0, 1, 2]


def test_two_members_share_and_the_survivor_takes_over(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=4), lab.producer()
    join = _joiner(lab, topic)
    first = join("a")
    owned: dict[str, set[int]] = {"a": set()}
    settle({"a": first}, owned, {"a": {0, 1, 2, 3}})
    second = join("b")
    owned["b"] = set()
    readers = {"a": first, "b": second}
    _until_even(readers, owned)
    assert owned["a"] | owned["b"] == {0, 1, 2, 3}
    assert not owned["a"] & owned["b"]
    first.close()
    settle({"b": second}, {"b": owned["b"]}, {"b": {0, 1, 2, 3}})
    for partition in range(4):
        write(producer, topic, partition, b"%d" % partition)
    assert sorted(value or b"" for value in values_of(second, 4)) == [b"0", b"1", b"2", b"3"]


def _until_even(readers: dict[str, GroupReader], owned: dict[str, set[int]]) -> None:
    for _ in range(1000):
        for name, reader in readers.items():
            match reader.poll(0.02):
                case Assigned(partitions):
                    owned[name] |= set(partitions)
                case Revoked(partitions):
                    owned[name] -= set(partitions)
                case _:
                    pass
        if all(len(partitions) == 2 for partitions in owned.values()):
            return
    raise AssertionError(f"two members never shared evenly: {owned}")


def test_the_group_does_not_wait_for_a_member_that_closed_without_partitions(lab: Lab) -> None:
    topic = lab.topic()
    join = _joiner(lab, topic)
    owner, idle = join("a"), join("b")
    for _ in range(50):
        owner.poll(0.01)
        idle.poll(0.01)
    idle.close()
    owner.close()
    assert until(join("c"), Assigned) == Assigned((0,))


def test_a_partition_is_revoked_from_one_member_before_another_gets_it(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    join = _joiner(lab, topic)
    readers = {"a": join("a")}
    until(readers["a"], Assigned)
    readers["b"] = join("b")
    owners: dict[int, str] = {0: "a", 1: "a"}
    for _ in range(1000):
        for name, reader in readers.items():
            match reader.poll(0.02):
                case Assigned(partitions):
                    assert not owners.keys() & set(partitions)
                    owners |= dict.fromkeys(partitions, name)
                case Revoked(partitions, lost):
                    assert not lost
                    for partition in partitions:
                        assert owners.pop(partition) == name
                case _:
                    pass
        if len(owners) == 2 and len(set(owners.values())) == 2:
            return
    raise AssertionError(f"the second member never got its share: {owners}")


def test_no_record_of_a_partition_comes_after_it_was_revoked(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), lab.producer()
    for partition in (0, 1):
        write(producer, topic, partition, *[b"x" * 1000] * 300)
    join = _joiner(lab, topic)
    first = join("a")
    owned = set(until(first, Assigned).partitions)
    second = join("b")
    for _ in range(3000):
        event = first.poll(0.005)
        second.poll(0.0)
        match event:
            case Record(partition=partition):
                assert partition in owned
            case Revoked(partitions):
                owned -= set(partitions)
            case _:
                pass
        if len(owned) == 1 and event is None:
            return
    raise AssertionError("the first member never gave a partition up")


def test_records_written_after_assigned_are_read_even_from_start_end(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), lab.producer()
    for partition in (0, 1):
        write(producer, topic, partition, b"before")
    reader = _joiner(lab, topic, Start.END)("a")
    until(reader, Assigned)
    # Not polled in between: the position was fixed when Assigned was returned, not by a later fetch.
    for partition in (0, 1):
        write(producer, topic, partition, b"after %d" % partition)
    assert sorted(value or b"" for value in values_of(reader, 2)) == [b"after 0", b"after 1"]
    quiet(reader)


def test_positions_are_not_remembered_for_the_next_member(lab: Lab) -> None:
    topic, producer = lab.topic(), lab.producer()
    write(producer, topic, 0, b"a", b"b")
    join = _joiner(lab, topic)
    first = join("a")
    assert values_of(first, 2) == [b"a", b"b"]
    first.close()
    assert values_of(join("b"), 2) == [b"a", b"b"]


def test_a_paused_partition_is_silent_and_goes_on_where_it_stopped(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), lab.producer()
    write(producer, topic, 0, *[b"%d" % number for number in range(5)])
    reader = _joiner(lab, topic)("a")
    assert values_of(reader, 2) == [b"0", b"1"]
    reader.pause([0])
    write(producer, topic, 1, b"other")
    assert values_of(reader, 1) == [b"other"]
    quiet(reader)
    reader.resume([0])
    assert values_of(reader, 3) == [b"2", b"3", b"4"]


def test_partitions_paused_right_after_assigned_lose_nothing(lab: Lab) -> None:
    topic, producer = lab.topic(), lab.producer()
    write(producer, topic, 0, b"a", b"b")
    reader = _joiner(lab, topic)("a")
    reader.pause(until(reader, Assigned).partitions)
    quiet(reader)
    reader.resume([0])
    assert values_of(reader, 2) == [b"a", b"b"]


def test_a_position_deleted_under_a_group_reader_is_an_error(lab: Lab) -> None:
    topic, producer = lab.topic(), lab.producer()
    write(producer, topic, 0, *[bytes(900_000)] * 12)
    reader = _joiner(lab, topic)("a")
    until(reader, Record)
    lab.admin().trim(topic, {0: 11})
    with pytest.raises(PositionLost, match=rf"{topic}\[0\].*11 up to 12"):
        collect(reader, 12, Record)


def test_a_group_of_a_missing_topic_is_refused_by_name(lab: Lab) -> None:
    missing = lab.unique("missing")
    reader = _joiner(lab, missing)("a")
    with pytest.raises(TopicMissing, match=missing):
        until(reader, Assigned)


def test_seek_reads_an_owned_partition_from_an_offset(lab: Lab) -> None:
    """Also a paused one, and also backwards; seeking in a partition of another member does nothing."""
    topic, producer = lab.topic(partitions=2), lab.producer()
    for number in range(6):
        write(producer, topic, 0, b"%d" % number)
    reader = _joiner(lab, topic)("a")
    assert next_event(reader) == Assigned((0, 1))
    reader.pause([0])
    reader.seek(0, 4)
    quiet(reader)
    reader.resume([0])
    assert values_of(reader, 2) == [b"4", b"5"]
    reader.seek(0, 1)
    reader.seek(7, 0)
    assert values_of(reader, 5) == [b"1", b"2", b"3", b"4", b"5"]


def test_after_a_lost_position_seek_reads_on_from_one_that_exists(lab: Lab) -> None:
    topic, producer, admin = lab.topic(partitions=1), lab.producer(), lab.admin()
    for number in range(4):
        write(producer, topic, 0, b"%d" % number)
    reader = _joiner(lab, topic)("a")
    assert next_event(reader) == Assigned((0,))
    reader.pause([0])
    admin.trim(topic, {0: 3})
    reader.seek(0, 1)
    reader.resume([0])
    with pytest.raises(PositionLost) as lost:
        until(reader, Record)
    assert (lost.value.position, lost.value.bounds and lost.value.bounds.begin) == (1, 3)
    reader.seek(0, 3)
    assert values_of(reader, 1) == [b"3"]
