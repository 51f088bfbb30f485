"""Every place between two steps of an update, a snapshot and a takeover at which a process may die, as data.

A process does what its state machine returns, effect by effect. So it can die before an effect is carried out, behind
it, between two of one kind, or when it has taken an input and done nothing of it; there is nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from driftline.broker.topics import Stream
from driftline.errors import Undecodable
from driftline.schemas.codec import decode
from driftline.schemas.effects import (
    CaughtUp,
    Effect,
    EndsKnown,
    Finish,
    Input,
    PartitionsAssigned,
    PartitionsRevoked,
    Received,
    Send,
    SendFailed,
    Sent,
)
from driftline.schemas.records import Snapshot

TOMBSTONE = "tombstone"
FIRST_SNAPSHOT = "Snapshot of version 0"


class When(Enum):
    """Where the process dies, seen from what the point names."""

    BEFORE = "before the first effect of this kind that an input leads to"
    BEHIND = "when the effect has been carried out"
    BETWEEN = "between two effects of this kind that follow each other"
    READ = "when an input of this kind has been read, before any of its effects"
    DONE = "when all effects of an input of this kind have been carried out"


@dataclass(frozen=True, slots=True)
class Place:
    """``what`` is the name of a record, or of an effect or an input that carries none."""

    when: When
    what: str
    kind: str = "server"


class FaultPoint(Enum):
    """All of them, in the order of the steps."""

    # an update
    SOME_DELTAS_SENT = Place(When.BETWEEN, "Delta", "worker")
    DELTAS_SENT = Place(When.BEFORE, "Contribution", "worker")
    CONTRIBUTION_SENT = Place(When.BEHIND, "Contribution", "worker")
    CONTRIBUTION_HEARD = Place(When.READ, "Contribution")
    DELTA_READ = Place(When.READ, "Delta")
    DELTAS_CHECKED = Place(When.BEFORE, "Receipt")
    RECEIPT_SENT = Place(When.BEHIND, "Receipt")
    RECEIPT_HEARD = Place(When.READ, "Receipt")
    LEASE_DECIDED = Place(When.BEFORE, "Lease")
    LEASE_SENT = Place(When.BEHIND, "Lease")
    VERSION_DECIDED = Place(When.BEFORE, "Version")
    VERSION_SENT = Place(When.BEHIND, "Version")
    VERSION_READ = Place(When.READ, "Version")
    VERSION_APPLIED = Place(When.BEFORE, "Parameters")
    SOME_PARAMETERS_SENT = Place(When.BETWEEN, "Parameters")
    PARAMETERS_ACKNOWLEDGED = Place(When.DONE, "Parameters acknowledged")
    PARAMETERS_SENT = Place(When.BEFORE, "ServerState")
    DIGESTS_TOLD = Place(When.BEHIND, "ServerState")
    PUBLISH_SENT = Place(When.BEHIND, "Publish")
    # a snapshot
    SNAPSHOT_BEGUN = Place(When.BEFORE, "Snapshot")
    SOME_SNAPSHOTS_SENT = Place(When.BETWEEN, "Snapshot")
    SNAPSHOTS_SENT = Place(When.BEHIND, "Snapshot")
    SNAPSHOT_ACKNOWLEDGED = Place(When.DONE, "Snapshot acknowledged")
    SNAPSHOTS_DURABLE = Place(When.BEFORE, "SnapshotReport")
    REPORT_SENT = Place(When.BEHIND, "SnapshotReport")
    REPORT_HEARD = Place(When.READ, "SnapshotReport")
    CHECKPOINT_DECIDED = Place(When.BEFORE, "Checkpoint")
    CHECKPOINT_SENT = Place(When.BEHIND, "Checkpoint")
    CHECKPOINT_READ = Place(When.READ, "Checkpoint")
    TOMBSTONES_BEGUN = Place(When.BEFORE, TOMBSTONE)
    SOME_TOMBSTONES_SENT = Place(When.BETWEEN, TOMBSTONE)
    TOMBSTONES_SENT = Place(When.BEFORE, "Trim")
    DELTAS_TRIMMED = Place(When.BEHIND, "Trim")
    # a takeover
    PARTITION_REVOKED = Place(When.DONE, "PartitionsRevoked")
    PARTITION_ASSIGNED = Place(When.DONE, "PartitionsAssigned")
    LEDGER_READ = Place(When.DONE, "CaughtUp with the ledger")
    SNAPSHOT_LOADED = Place(When.DONE, "Snapshot")
    STATE_LOADED = Place(When.BEFORE, "ResumeDeltas")
    DELTAS_ASKED_FOR = Place(When.BEHIND, "ResumeDeltas")
    DELTA_REFOLDED = Place(When.DONE, "Delta")
    TERM_DECIDED = Place(When.BEFORE, "TermStart")
    TERM_SENT = Place(When.BEHIND, "TermStart")
    TERM_READ = Place(When.READ, "TermStart")
    TERM_ANSWERED = Place(When.DONE, "TermStart")
    # the beginning, the members and the end
    SOME_FIRST_SNAPSHOTS_SENT = Place(When.BETWEEN, FIRST_SNAPSHOT, "worker")
    PROPOSAL_BEGUN = Place(When.BEFORE, "Proposal", "worker")
    PROPOSAL_SENT = Place(When.BEHIND, "Proposal", "worker")
    RUN_START_SENT = Place(When.BEHIND, "RunStart")
    READY_SENT = Place(When.BEHIND, "Ready", "worker")
    MEMBERSHIP_SENT = Place(When.BEHIND, "Membership")
    END_DECIDED = Place(When.BEFORE, "RunEnd")
    END_SENT = Place(When.BEHIND, "RunEnd")


_TOLD: Final = {Stream.SNAPSHOTS: "Snapshot", Stream.PARAMETERS: "Parameters"}
"""What its sender is told of when it is there."""


def name_of_effect(effect: Effect) -> str:
    """Return what a point calls an effect."""
    if not isinstance(effect, Send):
        return type(effect).__name__
    return TOMBSTONE if effect.value is None else _record_name(bytes(effect.value))


def name_of_input(event: Input) -> str:
    """Return what a point calls an input."""
    match event:
        case Received():
            return _record_name(event.value)
        case CaughtUp(stream=Stream.LEDGER):
            return "CaughtUp with the ledger"
        case Sent():
            return f"{_TOLD[event.stream]} acknowledged"
        case SendFailed() | PartitionsAssigned() | PartitionsRevoked() | EndsKnown():
            return type(event).__name__
    return ""


def _record_name(value: bytes | None) -> str:
    try:
        record = decode(value)
    except Undecodable:
        return ""
    if isinstance(record, Snapshot) and record.version == 0:
        return FIRST_SNAPSHOT
    return type(record).__name__


class Approach:
    """One process on its way to a point, where it dies the ``nth`` time that it, or another one like it, is there."""

    def __init__(self, point: FaultPoint, nth: int) -> None:
        self._place, self._left = point.value, nth

    def is_here(self, when: When, what: str) -> bool:
        """Whether the time has come; to be asked once at every place."""
        if (when, what) != (self._place.when, self._place.what):
            return False
        self._left -= 1
        return self._left == 0

    def until_death(self, event: str, effects: Iterable[Effect], die: Callable[[], None]) -> Iterator[Effect]:
        """Hand out the effects of an input, each carried out before the next one is asked for, or die over them.

        Args:
            event: name of the input.
            effects: that it leads to.
            die: ends the process; nothing is handed out behind it.
        """
        if self.is_here(When.READ, event):
            die()
            return
        before, seen = "", set[str]()
        for effect in effects:
            what = name_of_effect(effect)
            begins, goes_on = what not in seen, what == before
            seen.add(what)
            if (begins and self.is_here(When.BEFORE, what)) or (goes_on and self.is_here(When.BETWEEN, what)):
                die()
                return
            yield effect
            if not isinstance(effect, Finish) and self.is_here(When.BEHIND, what):
                die()
                return
            before = what
        if self.is_here(When.DONE, event):
            die()


def is_server_point(point: FaultPoint) -> bool:
    """Whether a server dies at a point: then the bits must be those of the undisturbed run."""
    return point.value.kind == "server"
