"""What a verification comes to: two verdicts, and the numbers behind them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.replay.verify.findings import Alarm, Finding
from driftline.replay.verify.ledger import Passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result.

    Attributes:
        run: name, as the ledger's first decision says; empty if there is none yet.
        head: hash over the ledger, up to the end that it had when it was read.
        version: the newest one in the ledger.
        ended: whether the run is over.
        first: the version that was recomputed first: 0, or the last checkpoint where earlier deltas are deleted.
        versions: how many were recomputed, the first included.
        equal: recorded digests that the recomputation gives as well, byte by byte.
        different: recorded digests that it does not give.
        unproven: publish points without a recorded digest, and recorded digests before ``first``.
        between: versions that are no publish points; those behind them prove them too.
        unreached: recorded digests of versions that could not be recomputed.
        integrity: whether the log is what its digests and hashes say.
        numerically_equal: whether no recorded digest is different.
        first_bad: the first place that decides either of them.
        bad: how many such places there are.
        alarms: valid deltas under identities that were taken; the first ones of each partition.
        expected_head: where the ledger passes through the head that was asked for.
        counts: what was read and what of it was not used.
        environment: what computed, to explain a numeric difference.
    """

    run: str
    uuid: str | None
    head: str
    term: int
    version: int
    ended: bool
    first: int
    versions: int
    equal: int
    different: int
    unproven: int
    between: int
    unreached: int
    integrity: bool
    numerically_equal: bool
    first_bad: Finding | None
    bad: int
    alarms: tuple[Alarm, ...]
    expected_head: Passed | None
    counts: Mapping[str, int]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_proven(self) -> bool:
        """Whether both verdicts are good and something was compared."""
        return self.integrity and self.numerically_equal and self.equal > 0

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return dataclasses.asdict(self)
