"""What goes into a state machine and what comes out of it.

The cores (coordinator, server, worker, follower) take one input at a time and return its effects. They know no
broker, clock, socket or thread: a shell carries inputs and effects to a real Kafka, the simulation to a shuffled one.

Effects may come from a generator. Each is then carried out before the next one is computed, so that a record is on its
way while the next is hashed, and only one is held at a time. The driver of a core takes all effects of an input before
it hands in the next input; an effect that is not taken has not happened.
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
    """Every record before ``offset`` has been read; the partition ended there at that moment."""

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

    It does not hold the value: many of these may wait for a core that is busy with sending, and their values would stay
    in memory meanwhile.
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
    """Deltas that the server still had to read are gone: the partition begins at ``begin`` now. Reading has stopped."""

    partition: int
    position: int
    begin: int


@dataclass(frozen=True, slots=True)
class Timer:
    """Time has passed. ``now_s`` is monotonic and has an arbitrary start."""

    now_s: float


@dataclass(frozen=True, slots=True)
class EndsKnown:
    """Partition → the next offset to be written, as it was after `AskEnds`; empty if Kafka did not answer.

    ``asker``: that of the `AskEnds`.
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

    ``tell``: `Sent` answers when the record is in the log. ``about``: version and shard of parameters, for the receiver
    of `Sent`.
    """

    stream: Stream
    partition: int
    value: Payload | None
    key: bytes | None = None
    tell: bool = False
    about: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Start or restart reading a partition of a stream that no consumer group assigns."""

    stream: Stream
    partition: int
    position: Position


@dataclass(frozen=True, slots=True)
class StopReading:
    """Stop reading a partition."""

    stream: Stream
    partition: int


@dataclass(frozen=True, slots=True)
class ResumeDeltas:
    """Read the deltas of these partitions from the offsets in ``begin`` on (empty: from where they begin).

    After `PartitionsAssigned` and after `DeltasLost` no delta is read until then.
    """

    partitions: tuple[int, ...]
    begin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Look up where the partitions of a stream end now; `EndsKnown` answers.

    ``asker``: the part of the process that asks, so that it does not take an answer to an earlier question.
    """

    stream: Stream
    asker: str = ""


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete the records of a partition before an offset. A failure is counted; a later `Trim` covers it."""

    stream: Stream
    partition: int
    before: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The state machine has nothing more to do: an empty ``failure`` is success."""

    reason: str
    failure: str = ""


Effect: TypeAlias = Send | Read | StopReading | ResumeDeltas | AskEnds | Trim | Finish
