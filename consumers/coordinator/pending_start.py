"""Pending evidence before the run exists: proposals, and which version-0 snapshots can be read."""

from driftline.ledger.run_state import RunState
from driftline.schemas.digests import verify_digest
from driftline.schemas.records import Proposal, Snapshot

MAX_PROPOSALS = 64


class PendingStart:
    """The birth of the run."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.proposals: dict[bytes, Proposal] = {}
        self.snapshots: dict[bytes, dict[int, bytes]] = {}

    def _add_proposal(self, event: Proposal) -> None:
        if not self._state.has_begun and len(self.proposals) < MAX_PROPOSALS:
            self.proposals.setdefault(event.run, event)

    def saw_snapshot(self, snapshot: Snapshot, value: bytes) -> None:
        """Remember a snapshot if a proposal names it and it is what its digest says."""
        for proposal in self.proposals.values():
            named = 0 <= snapshot.shard < len(proposal.shards) and proposal.shards[snapshot.shard] == snapshot.digest
            if named and snapshot.version == 0 and verify_digest(proposal.run, value, snapshot):
                self.snapshots.setdefault(proposal.run, {})[snapshot.shard] = snapshot.digest

    def is_complete(self, proposal: Proposal) -> bool:
        """Whether every version-0 shard of the proposal can be read."""
        found = self.snapshots.get(proposal.run, {})
        return all(found.get(shard) == digest for shard, digest in enumerate(proposal.shards))

    def _forget_birth(self) -> None:
        if self._state.has_begun:
            self.proposals.clear()
            self.snapshots.clear()
