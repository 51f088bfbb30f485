"""A partition whose reading stands still although the log goes on is placed again, and no other one."""

from typing import cast

from driftline.broker.kafka.consumer import Lookup
from driftline.broker.kafka.standstill import Standstill
from driftline.broker.port import Bounds
from driftline.errors import BrokerUnreachable


class Ends:
    """Where the partitions of a topic end; None while no broker answers."""

    def __init__(self, *ends: int) -> None:
        self.ends: tuple[int, ...] | None = ends

    def bounds(self, _topic: str, _timeout_s: float) -> dict[int, Bounds]:
        if self.ends is None:
            raise BrokerUnreachable("no node")
        return {partition: Bounds(0, end) for partition, end in enumerate(self.ends)}


def test_a_partition_that_stands_still_before_its_end_is_placed_again() -> None:
    """Not one at its end, not one that moves, and none while the end of the log is unknown."""
    ends = Ends(10, 5, 10)
    standing = Standstill(cast("Lookup", ends), 1e-9)
    for partition, offset in enumerate((3, 5, 3)):
        standing.at("t", partition, offset)
    assert standing.found() == []  # nothing is known of before
    standing.at("t", 2, 4)
    (stuck,) = standing.found()
    assert (stuck.place.topic, stuck.place.partition, stuck.place.offset) == ("t", 0, 3)
    ends.ends = None
    assert standing.found() == []
    ends.ends = (10, 5, 10)
    standing.forget("t", 0)
    standing.forget("t", 2)
    assert standing.found() == []


def test_ends_are_not_looked_up_before_the_time_is_over() -> None:
    """A look-up costs three questions."""
    standing = Standstill(cast("Lookup", None), 60.0)
    standing.at("t", 0, 3)
    assert standing.found() == []
    assert standing.found() == []


def test_a_paused_partition_may_stand_still() -> None:
    """And one that was resumed a moment ago."""
    standing = Standstill(cast("Lookup", Ends(10, 10)), 1e-9)
    standing.at("t", 0, 3)
    standing.at("t", 1, 3)
    assert standing.found({("t", 0)}) == []
    assert [stuck.place.partition for stuck in standing.found({("t", 0)})] == [0]
    standing.begin("t", 1)
    assert [stuck.place.partition for stuck in standing.found({("t", 1)})] == []
    assert [stuck.place.partition for stuck in standing.found({("t", 1)})] == [1]
