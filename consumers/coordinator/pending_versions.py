"""Pending evidence of servers and evaluators: who owns what, how far they are, digests and metrics of versions."""

from driftline.consumers.coordinator.pending_clocks import CLOCKS_AHEAD
from driftline.consumers.coordinator.pending_members import Member
from driftline.ledger.event_check import shorten
from driftline.ledger.run_state import RunState
from driftline.schemas.digests import model_digest
from driftline.schemas.records import EvaluationReport, ServerState, ShardDigest, StateDigest


class PendingVersions:
    """What is known of versions beyond the ledger. The first failure that a server reports ends the run."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.owners: dict[int, Member] = {}
        self.applied: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.digests: dict[int, dict[int, ShardDigest]] = {}
        self.states: dict[int, StateDigest] = {}
        self.reports: dict[int, EvaluationReport] = {}
        self.failure = ""

    def _add_server_state(self, event: ServerState) -> None:
        self.failure = self.failure or shorten(event.failure)
        for partition in event.partitions:
            self.applied[partition.partition] = event.version
            self.positions[partition.partition] = partition.position
            self.owners[partition.partition] = (event.server, event.incarnation)
        for digest in event.shards:
            self._add_digest(digest, event)

    def _add_digest(self, digest: ShardDigest, event: ServerState) -> None:
        layout, checkpoint = self._state.layout, self._state.checkpoint
        if digest.version in self._state.states or digest.version in self.states:
            return
        if checkpoint is not None and digest.version < checkpoint.version:
            return  # its digest was recorded and forgotten, or never will be known
        shards = self.digests.setdefault(digest.version, {})
        known = shards.setdefault(digest.shard, digest)
        if (known.state, known.masters) != (digest.state, digest.masters):
            self.failure = self.failure or (
                f"shard {digest.shard} of version {digest.version} has two digests: {known.state.hex()[:16]} and, "
                f"from server {event.server}, {digest.state.hex()[:16]}"
            )
        if len(shards) == layout.shard_count:
            ordered = [shards[shard] for shard in range(layout.shard_count)]
            self.states[digest.version] = StateDigest(
                version=digest.version,
                state=model_digest([shard.state for shard in ordered]),
                parameters=model_digest([shard.masters for shard in ordered]),
            )
            del self.digests[digest.version]

    def _add_evaluation(self, event: EvaluationReport) -> None:
        """Keep a report, also of a version that we have yet to read: streams are read at different speeds."""
        state = self._state
        unread = state.version < event.version <= state.version + CLOCKS_AHEAD
        if event.version not in state.evaluations and (unread or state.heads.get(event.version) == event.head):
            self.reports[event.version] = event

    def measured(self) -> EvaluationReport | None:
        """Return a report on a version of this ledger that the ledger does not yet hold."""
        heads = self._state.heads
        return next((one for version, one in sorted(self.reports.items()) if heads.get(version) == one.head), None)

    def _forget_versions(self) -> None:
        state = self._state
        self.states = {version: digest for version, digest in self.states.items() if version not in state.states}
        self.digests = {version: shards for version, shards in self.digests.items() if version not in state.states}
        self.reports = {version: event for version, event in self.reports.items() if version not in state.evaluations}
