"""The plain log keeps offsets through trimming and compaction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.broker.port import Bounds, PositionLost, TopicSpec
from driftline.errors import BrokerError, TopicMissing
from driftline.testing.memory import MemoryLog


def _log(*values: bytes | None, key: bytes | None = None) -> MemoryLog:
    log = MemoryLog()
    log.create(TopicSpec("t", 1))
    for value in values:
        log.append("t", 0, value, key=key)
    return log


def _all(log: MemoryLog) -> list[int]:
    offsets, position = [], log.bounds("t", 0).begin
    while (record := log.read("t", 0, position)) is not None:
        offsets.append(record.offset)
        position = record.offset + 1
    return offsets


def test_compaction_leaves_holes_and_reading_steps_over_them() -> None:
    log = MemoryLog()
    log.create(TopicSpec("t", 1))
    for key, value in [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1")]:
        log.append("t", 0, value, key=key)
    log.compact("t", 0)
    assert _all(log) == [2, 3, 4]
    log.compact("t", 0, drop_tombstones=True)
    assert _all(log) == [2, 4]
    assert log.bounds("t", 0) == Bounds(0, 5)
    assert log.append("t", 0, b"next") == 5


@given(st.integers(0, 20), st.lists(st.integers(0, 20)), st.integers(0, 21))
def test_kept_records_are_read_and_others_are_an_error(length: int, trims: list[int], position: int) -> None:
    log = _log(*[b"x"] * length)
    begin = 0
    for offset in trims:
        if offset > length:
            with pytest.raises(BrokerError, match=f"ends at {length}"):
                log.trim("t", 0, offset)
        else:
            log.trim("t", 0, offset)
            begin = max(begin, offset)
    assert log.bounds("t", 0) == Bounds(begin, length)
    if begin <= position <= length:
        record = log.read("t", 0, position)
        assert (None if record is None else record.offset) == (position if position < length else None)
    else:
        with pytest.raises(PositionLost):
            log.read("t", 0, position)


def test_a_lost_position_says_how_much_was_lost_or_that_the_log_is_another() -> None:
    log = _log(b"a", b"b", b"c")
    log.trim("t", 0, 2)
    with pytest.raises(PositionLost, match="1 offsets were deleted before they were read"):
        log.read("t", 0, 1)
    with pytest.raises(PositionLost, match="not the log in which that offset was seen"):
        log.read("t", 0, 9)


def test_missing_topics_and_partitions_are_named() -> None:
    log = _log()
    with pytest.raises(TopicMissing, match="nope"):
        log.append("nope", 0, b"x")
    with pytest.raises(TopicMissing, match="no partition 1"):
        log.read("t", 1, 0)
