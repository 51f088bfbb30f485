"""How much of its time a worker waits."""

from contextlib import suppress

from driftline.training.worker.participation import WaitShare


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_wait_for_the_start_of_the_run_does_not_count() -> None:
    """A worker that was an hour early, and then always busy, does not wait."""
    hand = Hand()
    waiting = WaitShare(hand)
    assert waiting.share == 0.0
    with waiting:
        hand.now_s += 3600
    assert waiting.share == 0.0
    hand.now_s += 6
    assert waiting.share == 0.0
    with waiting:
        hand.now_s += 2
    assert waiting.share == 0.25


def test_a_wait_that_ends_in_an_error_counts() -> None:
    """Ctrl-C in a wait is no work."""
    hand = Hand()
    waiting = WaitShare(hand)
    with waiting:
        hand.now_s += 1
    with suppress(KeyboardInterrupt), waiting:
        hand.now_s += 3
        raise KeyboardInterrupt
    hand.now_s += 1
    assert waiting.share == 0.75
