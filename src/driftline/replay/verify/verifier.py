"""Proof of a run: the log is what it was, and recomputing it gives the recorded bits.

The ledger is read first, to its end. Then it is known which deltas are used, in which version, and which digests are
recorded, so each partition can be recomputed on its own, holding no more than a server would.

Nothing here reads a topic: records are handed in, in order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from driftline.broker.topics import Stream
from driftline.replay.verify.findings import INTEGRITY, NUMERIC, Finding, Findings
from driftline.replay.verify.ledger import LedgerProof, Recorded
from driftline.replay.verify.partition import PartitionProof
from driftline.replay.verify.published import Difference
from driftline.replay.verify.report import Report
from driftline.schemas.digests import contribution_root, model_digest
from driftline.schemas.records import StateDigest, Use

__all__ = ["Report", "Verifier"]


class Verifier:
    """Verifies one run.

    Args:
        expect: the first hex digits of a head that the ledger must pass through; empty for none.
    """

    def __init__(self, expect: str = "") -> None:
        self.ledger = LedgerProof(expect)
        self.partitions: tuple[PartitionProof, ...] = ()

    def on_ledger(self, offset: int, value: bytes | None) -> None:
        """Take the next record of the ledger."""
        self.ledger.read(offset, value)

    def on_ledger_end(self) -> tuple[PartitionProof, ...]:
        """The ledger's present end was reached; return what is to be proven next, in any order or at once."""
        self.ledger.end()
        if self.ledger.can_be_folded:
            partitions = range(self.ledger.state.layout.partitions)
            self.partitions = tuple(PartitionProof(self.ledger, number) for number in partitions)
        return self.partitions

    def report(self) -> Report:
        """Return the result, once every partition has been read."""
        return _Conclusion(self.ledger, self.partitions).report()


class _Conclusion:
    """What the ledger and all partitions say together."""

    def __init__(self, ledger: LedgerProof, partitions: tuple[PartitionProof, ...]) -> None:
        self._ledger = ledger
        self._partitions = partitions
        self._findings = Findings()
        self._findings.merge([ledger.findings, *(one.findings for one in partitions)])
        self._reached = min((one.version for one in partitions), default=-1)
        self._first = 0 if ledger.begins_with is None else ledger.begins_with.version
        """The first version that can be recomputed."""
        self._suspect = ledger.state.version + 1
        """The first version whose parameters need not be the published ones, since something else is wrong."""

    def report(self) -> Report:
        """Put everything together."""
        self._check_roots()
        outcomes = Counter(self._compare(one) for one in self._by_version())
        self._check_published()
        ledger, state = self._ledger, self._ledger.state
        recorded = {one.digest.version for one in ledger.recorded}
        points = ledger.publish_points
        return Report(
            run=state.start.name if state.has_begun else "",
            uuid=state.start.run.hex() if state.has_begun else None,
            head=state.chain.head.hex(),
            term=state.chain.term,
            version=state.version,
            ended=state.ended is not None,
            versions=max(0, self._reached + 1 - self._first),
            equal=outcomes["equal"],
            different=outcomes["different"],
            unproven=len(points - recorded) + len({version for version in recorded if version < self._first}),
            between=len(set(range(self._first, state.version + 1)) - points - recorded) if state.has_begun else 0,
            first=self._first,
            unreached=outcomes["unreached"],
            integrity=not self._findings.counts[INTEGRITY],
            numerically_equal=not self._findings.counts[NUMERIC],
            first_bad=self._findings.first,
            bad=sum(self._findings.counts.values()),
            alarms=tuple(alarm for one in self._partitions for alarm in one.deltas.alarms),
            expected_head=ledger.passed,
            counts=self._counts(),
        )

    # -- contributions -----------------------------------------------------------------------------------------------

    def _check_roots(self) -> None:
        for version, record in self._ledger.state.versions.items():
            for use in record.uses:
                if use.kind == "delta":
                    self._check_root(version, use)

    def _check_root(self, version: int, use: Use) -> None:
        digests = [self._digest(use, shard) for shard in range(self._shards)]
        whole = [digest for digest in digests if digest is not None]
        if not whole or len(whole) < len(digests):
            return  # what is missing is a finding of its partition
        root = contribution_root(whole)
        if root == use.root:
            return
        self._suspect = min(self._suspect, version)
        where = self._only_difference(version)
        shard = 0 if self._shards == 1 else None if where is None else where.shard
        self._findings.add(
            Finding(
                verdict=INTEGRITY,
                problem="the deltas of a contribution do not hash to its root in the ledger: one was exchanged",
                stream=Stream.DELTAS,
                partition=None if shard is None else self._owner(shard).owned.partition,
                offset=None if shard is None else self._offset(use, shard),
                version=version,
                shard=shard,
                segment=None if where is None else where.segment,
                group=str(use.group),
                clock=use.clock,
                expected=f"root {use.root.hex()}",
                found=f"root {root.hex()}",
            )
        )

    @cached_property
    def _shards(self) -> int:
        return self._ledger.state.layout.shard_count if self._partitions else 0

    def _owner(self, shard: int) -> PartitionProof:
        return self._partitions[shard % len(self._partitions)]

    def _digest(self, use: Use, shard: int) -> bytes | None:
        place = self._owner(shard).deltas.place((use.group, use.clock), shard)
        return None if place is None else place[0]

    def _offset(self, use: Use, shard: int) -> int | None:
        place = self._owner(shard).deltas.place((use.group, use.clock), shard)
        return None if place is None else place[1]

    # -- recorded digests --------------------------------------------------------------------------------------------

    def _by_version(self) -> list[Recorded]:
        return sorted(self._ledger.recorded, key=lambda one: (one.digest.version, one.offset))

    def _compare(self, recorded: Recorded) -> str:
        version = recorded.digest.version
        if version < self._first:
            return "before"
        if version > self._reached:
            failures = [one.failure for one in self._partitions if one.failure is not None]
            if failures and min(failures)[0] <= version:
                self._numeric(recorded, found=min(failures)[1])
            return "unreached"
        ours = self._recomputed(version)
        if ours == recorded.digest:
            return "equal"
        self._suspect = min(self._suspect, version)
        self._numeric(recorded, found=_shown(ours))
        return "different"

    def _recomputed(self, version: int) -> StateDigest:
        digests = [self._owner(shard).digests.get(version, shard) for shard in range(self._shards)]
        there = [digest for digest in digests if digest is not None]
        return StateDigest(
            version=version,
            state=model_digest(state for state, _ in there),
            parameters=model_digest(masters for _, masters in there),
        )

    def _numeric(self, recorded: Recorded, found: str) -> None:
        where = self._only_difference(recorded.digest.version)
        element = "" if where is None else f"; published: {where.found}, recomputed: {where.expected}"
        self._findings.add(
            Finding(
                verdict=NUMERIC,
                problem=f"the recomputed state is not the one that the ledger records{element}",
                stream=Stream.LEDGER,
                partition=0,
                offset=recorded.offset,
                version=recorded.digest.version,
                shard=None if where is None else where.shard,
                segment=None if where is None else where.segment,
                expected=_shown(recorded.digest),
                found=found,
            )
        )

    # -- published parameters ----------------------------------------------------------------------------------------

    def _differences(self) -> Iterable[tuple[PartitionProof, Difference]]:
        for one in self._partitions:
            for difference in () if one.published is None else one.published.differences:
                yield one, difference

    def _only_difference(self, version: int) -> Difference | None:
        """Return the shard that was published otherwise at a version, if it is only one: then the place is known."""
        found = {one.shard: one for _, one in self._differences() if one.version == version}
        return next(iter(found.values())) if len(found) == 1 else None

    def _check_published(self) -> None:
        """What was published otherwise is wrong, unless the fold itself already was by then."""
        for partition, one in self._differences():
            if one.version < self._suspect:
                self._findings.add(
                    Finding(
                        verdict=INTEGRITY,
                        problem="published parameters are not those of their version",
                        stream=Stream.PARAMETERS,
                        partition=partition.owned.partition,
                        offset=one.offset,
                        version=one.version,
                        shard=one.shard,
                        segment=one.segment,
                        expected=one.expected,
                        found=one.found,
                    )
                )

    # -- counts ------------------------------------------------------------------------------------------------------

    def _counts(self) -> Mapping[str, int]:
        ledger, state = self._ledger, self._ledger.state
        deltas, parameters = Counter[str](), Counter[str]()
        for one in self._partitions:
            deltas.update(one.deltas.counts)
            parameters.update({} if one.published is None else one.published.counts)
        return {
            "bytes": ledger.bytes + sum(one.bytes for one in self._partitions) + parameters["bytes"],
            "ledger_valid": state.chain.valid,
            "ledger_void": state.chain.void,
            "ledger_undecodable": state.totals.undecodable,
            "ledger_unread": ledger.unread,
            "rejections": sum(state.totals.rejections.values()),
            "removals": len(state.removed),
            **{f"deltas_{name}": deltas[name] for name in _OF_DELTAS},
            **{f"parameters_{name}": parameters[name] for name in _OF_PARAMETERS},
        }


_OF_DELTAS = ("used", "unused", "duplicates", "conflicting", "unsound", "undecodable")
_OF_PARAMETERS = ("equal", "different", "not_recomputed", "unsound", "undecodable")


def _shown(digest: StateDigest) -> str:
    return f"state {digest.state.hex()}, parameters {digest.parameters.hex()}"
