"""What a verification has to say: the places where the log is not what it should be, and the alarms that are none."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from driftline.broker.topics import Stream

INTEGRITY = "integrity"
NUMERIC = "numeric"

SHOWN_ALARMS = 20
"""Alarms that are kept a partition; more are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One bad place, as exactly as it is known; what is not known is None.

    Attributes:
        verdict: which of the two verdicts it decides, ``integrity`` or ``numeric``.
        problem: what is wrong, in words.
        version: the first version that it touches.
        segment: the tensor's name.
        group: of the contribution, as `offset.index` of its join.
        clock: of the contribution.
        expected: what should be there.
        found: what is there.
    """

    verdict: str
    problem: str
    stream: Stream
    partition: int | None
    offset: int | None
    version: int
    shard: int | None = None
    segment: str | None = None
    group: str | None = None
    clock: int | None = None
    expected: str
    found: str

    def __str__(self) -> str:
        place = str(self.stream) if self.partition is None else f"{self.stream}[{self.partition}]"
        parts = [f"{place} offset {self.offset}" if self.offset is not None else place, f"version {self.version}"]
        parts += [] if self.shard is None else [f"shard {self.shard}"]
        parts += [] if self.segment is None else [f"segment {self.segment}"]
        parts += [] if self.group is None else [f"clock {self.clock} of group {self.group}"]
        return f"{', '.join(parts)}: {self.problem}; expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A valid delta under an identity that is taken by another one: it changes nothing, but a client wrote it."""

    partition: int
    offset: int
    first_offset: int
    group: str
    clock: int
    shard: int

    def __str__(self) -> str:
        return (
            f"{Stream.DELTAS}[{self.partition}] offset {self.offset}: another delta of clock {self.clock} of group "
            f"{self.group}, shard {self.shard}, than the one at offset {self.first_offset}, which counts"
        )


_ORDER = (Stream.LEDGER, Stream.SNAPSHOTS, Stream.DELTAS, Stream.PARAMETERS)
"""Of findings in one version: causes before their effects."""


def _rank(finding: Finding) -> tuple[int, int, int]:
    # A recorded digest lies in the ledger, but is the last thing to be wrong of its version.
    cause = len(_ORDER) if finding.verdict == NUMERIC else _ORDER.index(finding.stream)
    return finding.version, cause, -1 if finding.offset is None else finding.offset


class Findings:
    """The first finding, and how many there are: a broken log may hold more than fit into memory."""

    def __init__(self) -> None:
        self.first: Finding | None = None
        self.counts: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        """Add one; the first is the one of the lowest version, and in it the one nearest to the cause."""
        self.counts[finding.verdict] += 1
        self._keep_first(finding)

    def merge(self, others: Iterable["Findings"]) -> None:
        """Add those of others."""
        for other in others:
            self.counts.update(other.counts)
            if other.first is not None:
                self._keep_first(other.first)

    def _keep_first(self, finding: Finding) -> None:
        if self.first is None or _rank(finding) < _rank(self.first):
            self.first = finding
