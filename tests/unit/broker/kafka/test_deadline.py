"""Deadlines fit a client that knows whole milliseconds only."""

import time

from driftline.broker.kafka.deadline import Deadline


def test_the_time_left_is_never_rounded_down_to_nothing() -> None:
    """Until a deadline has passed, a call gets at least a millisecond: with less a poll would be a busy loop."""
    deadline = Deadline(0.005)
    calls = 0
    while not deadline.passed():
        left_ms = int(deadline.left_s() * 1000)  # as the client reckons
        assert left_ms >= 1 or deadline.passed()
        time.sleep(left_ms / 1000)
        calls += 1
    assert calls <= 5


def test_a_deadline_in_the_past_leaves_nothing() -> None:
    """A call without time must not wait even a millisecond."""
    assert Deadline(0.0).left_s() == 0.0
    assert Deadline(-1.0).left_s(at_least=0.0) == 0.0
    assert Deadline(10.0).left_s(at_most=0.1) == 0.1
