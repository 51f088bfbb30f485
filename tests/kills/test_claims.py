"""What a ledger must show after kills: each claim can be broken, and is then named."""

import pytest

from driftline.schemas.records import GroupId
from tests.kills.acknowledged import Clock, Noted
from tests.kills.claims import Told, broken_claims

ADA, BOB = GroupId(3, 0), GroupId(3, 1)


def sound() -> tuple[Told, Noted]:
    """Return a ledger of two groups and two clocks each, one epoch of four samples, and what was acknowledged."""
    told = Told()
    clocks: list[Clock] = [(group, clock) for group in (ADA, BOB) for clock in (1, 2)]
    for place, clock in enumerate(clocks):
        told.settled[clock] += 1
        told.used[clock] = f"root {clock}"
        told.places[0, place] += 1
    sent = {clock: f"root {clock}" for clock in [*clocks, (ADA, 3)]}
    return told, Noted(sent=sent, acknowledged=frozenset(sent))


def test_a_sound_ledger_breaks_nothing() -> None:
    """A contribution that the end of the run left unsettled is allowed, too."""
    assert broken_claims(*sound(), samples=4, epochs=1) == []


@pytest.mark.parametrize("what", ["twice", "root", "unsent", "passed over", "sample twice", "sample never"])
def test_each_broken_claim_is_named(what: str) -> None:
    """With the place."""
    told, noted = sound()
    match what:
        case "twice":
            told.settled[ADA, 1] += 1
            expected = "settled more than once: ['(GroupId(offset=3, index=0), 1)']"
        case "root":
            told.used[ADA, 1] = "another"
            expected = "used with another root than was sent"
        case "unsent":
            del noted.sent[BOB, 2]
            expected = "used and never sent"
        case "passed over":
            del told.settled[BOB, 1]
            expected = "acknowledged, of a group that was not removed, and passed over"
        case "sample twice":
            told.places[0, 2] += 1
            expected = "samples used more than once in an epoch: [(0, 2)]"
        case _:
            del told.places[0, 3]
            expected = "samples never used in epoch 0: [3]"
    [broken] = broken_claims(told, noted, samples=4, epochs=1)
    assert broken.startswith(expected)


def test_what_was_lost_with_a_removed_group_is_no_loss() -> None:
    """Its contributions are discarded, and its samples are free again."""
    told, noted = sound()
    del told.settled[BOB, 1], told.used[BOB, 1]
    told.removed.add(BOB)
    assert broken_claims(told, noted, samples=4, epochs=1) == []
