"""What must be true of a run's ledger whatever was killed, told by its records alone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from driftline.errors import Undecodable
from driftline.ledger.chain import Chain
from driftline.schemas.codec import decode
from driftline.schemas.records import (
    GroupId,
    LedgerRecord,
    Membership,
    Publish,
    Rejection,
    RunEnd,
    TermStart,
    Use,
    Version,
)
from driftline.schemas.records.sample_range import SampleRange
from tests.kills.acknowledged import Clock, Noted

DELTA = "delta"
MOST_UNSETTLED = 2
"""Contributions that a group may have under way (K)."""


@dataclass(slots=True)
class Told:
    """What a ledger says.

    Attributes:
        settled: (group, clock) → how often it was used, skipped or rejected.
        used: (group, clock) → root, of contributions that a version uses.
        places: (epoch, place) → how often a version used it, or a record discarded it.
        removed: groups that were.
        joins: groups that there were.
        states: version → digest of its state, moments included.
        terms: that began.
    """

    settled: Counter[Clock] = field(default_factory=Counter)
    used: dict[Clock, str] = field(default_factory=dict)
    places: Counter[tuple[int, int]] = field(default_factory=Counter)
    removed: set[GroupId] = field(default_factory=set)
    states: dict[int, str] = field(default_factory=dict)
    joins: int = 0
    terms: int = 0
    version: int = 0
    end: RunEnd | None = None


def read_told(values: Iterable[bytes | None]) -> Told:
    """Read a whole ledger."""
    told, chain = Told(), Chain()
    for value in values:
        try:
            record = decode(value)
        except Undecodable:
            continue
        if value is not None and isinstance(record, LedgerRecord) and chain.accept(record, value):
            _take(told, record)
    return told


def _take(told: Told, record: LedgerRecord) -> None:
    if isinstance(record, Version | Publish | RunEnd):
        told.states |= {one.version: one.state.hex() for one in record.states}
    match record:
        case TermStart():
            told.terms += 1
        case Version():
            told.version = record.version
            for use in record.uses:
                _use(told, use)
        case Rejection():
            told.settled[record.group, record.clock] += 1
            _spend(told, record.burned)
        case Membership():
            told.joins += len(record.joins)
            told.removed |= {one.group for one in record.removals}
        case RunEnd():
            told.end = record
        case _:
            pass


def _use(told: Told, use: Use) -> None:
    told.settled[use.group, use.clock] += 1
    _spend(told, use.samples)
    if use.kind == DELTA:
        told.used[use.group, use.clock] = use.root.hex()


def _spend(told: Told, ranges: Sequence[SampleRange]) -> None:
    for one in ranges:
        told.places.update((one.epoch, place) for place in range(one.start, one.stop))


def broken_claims(told: Told, noted: Noted, *, samples: int, epochs: int) -> list[str]:
    """Say which promises the ledger breaks; ``epochs`` that must be used up whole, 0 if the run ends by versions."""
    return [*_settled_claims(told, noted), *_sample_claims(told, samples, epochs)]


def _settled_claims(told: Told, noted: Noted) -> list[str]:
    twice = [clock for clock, count in told.settled.items() if count > 1]
    others = [clock for clock, root in told.used.items() if noted.sent.get(clock, root) != root]
    unsent = [clock for clock in told.used if clock not in noted.sent]
    last: dict[GroupId, int] = {}
    for group, clock in told.settled:
        last[group] = max(clock, last.get(group, 0))
    lost = [
        (group, clock)
        for group, clock in noted.acknowledged
        if (group, clock) not in told.settled and group not in told.removed and clock <= last.get(group, 0)
    ]
    late = Counter(
        group for group, clock in noted.acknowledged if group not in told.removed and clock > last.get(group, 0)
    )
    found: list[tuple[Sequence[object], str]] = [
        (twice, "settled more than once"),
        (others, "used with another root than was sent"),
        (unsent, "used and never sent"),
        (lost, "acknowledged, of a group that was not removed, and passed over"),
        ([group for group, count in late.items() if count > MOST_UNSETTLED], "more left unsettled than may be"),
    ]
    return [f"{what}: {sorted(map(str, which))[:3]} and {len(which)} in all" for which, what in found if which]


def _sample_claims(told: Told, samples: int, epochs: int) -> list[str]:
    twice = [place for place, count in told.places.items() if count > 1]
    found = [f"samples used more than once in an epoch: {sorted(twice)[:3]} and {len(twice)} in all"] if twice else []
    for epoch in range(epochs):
        missing = [place for place in range(samples) if (epoch, place) not in told.places]
        if missing:
            found.append(f"samples never used in epoch {epoch}: {missing[:3]} and {len(missing)} in all")
    return found
