"""What goes into a state machine and what comes out of it.

The cores (coordinator, server, worker, follower) take one input at a time and return its effects. They know no
broker, clock, socket or thread: a shell carries inputs and effects to a real Kafka, the simulation to a shuffled one.

Effects may come from a generator. Each is then carried out before the next one is computed, so that a record is on its
way while the next is hashed, and only one is held at a time. Whoever drives a core takes all effects of an input before
anything else of that core; what is not taken has not happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from driftline.broker.port import Payload, Position
from driftline.broker.topics import Stream

# -- inputs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Received:
    """One record was read from a stream of the run."""

    stream: Stream
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything before ``offset`` has been read; nothing else is there at this moment."""

    stream: Stream
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """The consumer group of this stream gave partitions to this process; their records follow from the start.

    Those of deltas follow when `ResumeDeltas` asks for them.
    """

    stream: Stream
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """The consumer group of this stream took partitions away."""

    stream: Stream
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendFailed:
    """A `Send` was not acknowledged; it may or may not be in the log."""

    send: "Send"
    reason: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A `Send` that asked for it is in the log at ``offset``, on every in-sync replica.

    Without its value: many of these may wait for a core that is busy with sending, and the values would be in memory
    as long as they do.
    """

    stream: Stream
    partition: int
    offset: int
    key: bytes | None = None
    about: tuple[int, int] | None = None

    @classmethod
    def of(cls, send: "Send", offset: int) -> "Sent":
        """Answer a `Send`."""
        return cls(send.stream, send.partition, offset, send.key, send.about)


@dataclass(frozen=True, slots=True)
class DeltasLost:
    """Deltas that were still to be read are gone: the partition begins at ``begin`` now, and nothing more is read."""

    partition: int
    position: int
    begin: int


@dataclass(frozen=True, slots=True)
class Timer:
    """Time has passed. ``now_s`` is monotonic and has an arbitrary start."""

    now_s: float


@dataclass(frozen=True, slots=True)
class EndsKnown:
    """Partition → the next offset to be written, as it was after `AskEnds`; empty if nobody could say.

    ``asker``: as in the question.
    """

    stream: Stream
    ends: Mapping[int, int]
    asker: str = ""


Input: TypeAlias = (
    Received | CaughtUp | PartitionsAssigned | PartitionsRevoked | SendFailed | Sent | DeltasLost | Timer | EndsKnown
)

# -- effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Append a record (a tombstone if ``value`` is None). Order within a partition is the order of effects.

    ``tell``: `Sent` answers when it is there. ``about``: version and shard of parameters, for whoever takes `Sent`.
    """

    stream: Stream
    partition: int
    value: Payload | None
    key: bytes | None = None
    tell: bool = False
    about: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Start, or restart, reading a partition of a stream that no consumer group hands out."""

    stream: Stream
    partition: int
    position: Position


@dataclass(frozen=True, slots=True)
class StopReading:
    """Nothing more of this partition is wanted."""

    stream: Stream
    partition: int


@dataclass(frozen=True, slots=True)
class ResumeDeltas:
    """Hand out the deltas of these partitions from the offsets in ``begin`` on (empty: from where they begin).

    After `PartitionsAssigned` and after `DeltasLost` nothing comes until then.
    """

    partitions: tuple[int, ...]
    begin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Look up where the partitions of a stream end now; `EndsKnown` answers.

    ``asker``: who wants to know, where several parts of a process ask: an answer to an earlier question is too old.
    """

    stream: Stream
    asker: str = ""


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete the records of a partition before an offset. That it fails is counted; a later one covers it."""

    stream: Stream
    partition: int
    before: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The state machine has nothing more to do: an empty ``failure`` is success."""

    reason: str
    failure: str = ""


Effect: TypeAlias = Send | Read | StopReading | ResumeDeltas | AskEnds | Trim | Finish
