"""Pending evidence of members: who lives, who leaves, who wants to join."""

from dataclasses import dataclass

from driftline.ledger.run_state import RunState
from driftline.schemas.records import GroupId, Heartbeat, Leave, Ready, ServerState, StopRequest

MAX_CLAIMS = 4096
"""Incarnations that want to join and have not."""

REPEATS = 3
"""Ticks in which an incarnation must say `Ready` before it replaces a member of its name: one alone may be a late one
of a process that died long ago."""

CLAIM_GAP = 8
"""Ticks of silence after which repetitions are counted from zero."""

PROCESS_ENDED = "its process has ended"
"""Reason of a `Leave` that a launcher sends for a worker whose process it saw end."""

Member = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Leaving:
    """A member leaves: the tick in which its `Leave` arrived, and the word for it in the ledger."""

    tick: int
    word: str


@dataclass(slots=True)
class Claim:
    """An incarnation wants to join, and says so once a tick interval."""

    event: Ready
    last_tick: int = -1
    repeats: int = 0


class PendingMembers:
    """Lives and claims. Silence is counted in ticks of this term."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.claims: dict[Member, Claim] = {}
        self._members: dict[str, GroupId] = {}
        self.leaving: dict[Member, Leaving] = {}
        self.last_seen: dict[Member, int] = {}
        self.evaluators: set[Member] = set()
        self.stop: StopRequest | None = None
        self.stop_tick = 0
        """Ticks read when it first arrived in this term."""
        self.members_are_settled = False
        """Whether no event since the last look lets a member join or go."""

    # -- events --------------------------------------------------------------------------------------------------------

    def _alive(self, member: str, incarnation: bytes, ticks_read: int) -> None:
        self.last_seen[member, incarnation] = ticks_read

    def _add_member(self, event: Ready | Heartbeat | ServerState | Leave, ticks_read: int) -> None:
        if self.claims or not isinstance(event, Heartbeat | ServerState):
            self.members_are_settled = False
        match event:
            case Ready():
                self._alive(event.worker, event.incarnation, ticks_read)
                self._add_claim(event, ticks_read)
            case Heartbeat():
                self._alive(event.member, event.incarnation, ticks_read)
                if event.role == "evaluator":
                    self.evaluators.add((event.member, event.incarnation))
            case ServerState():
                self._alive(event.server, event.incarnation, ticks_read)
            case Leave():
                word = PROCESS_ENDED if event.reason == PROCESS_ENDED else "left"
                self.leaving[event.worker, event.incarnation] = Leaving(ticks_read, word)

    def _add_stop(self, event: StopRequest, ticks_read: int) -> None:
        if self.stop is None:
            self.stop, self.stop_tick = event, ticks_read

    def _add_claim(self, event: Ready, ticks_read: int) -> None:
        member = (event.worker, event.incarnation)
        if member in self._state.joined:
            return
        if len(self.claims) >= MAX_CLAIMS:
            del self.claims[next(iter(self.claims))]
        claim = self.claims.setdefault(member, Claim(event))
        if claim.last_tick != ticks_read:
            claim.repeats = 1 if ticks_read > claim.last_tick + CLAIM_GAP else claim.repeats + 1
            claim.last_tick = ticks_read

    # -- queries -------------------------------------------------------------------------------------------------------

    def successor(self, member: Member, ticks_read: int, patience: int) -> Member | None:
        """Return another incarnation of a member that wants its place and lives.

        It is the one that ``candidates`` offers, so that it joins in the record that removes the member: a claim whose
        process has died meanwhile must cost no member its place.
        """
        name, incarnation = member
        event = self.candidates(ticks_read, patience).get(name)
        if event is None or event.incarnation == incarnation:
            return None
        successor = (name, event.incarnation)
        return successor if self.claims[successor].repeats >= REPEATS else None

    def candidates(self, ticks_read: int, patience: int) -> dict[str, Ready]:
        """Return the workers that may join, by name: of several incarnations the one with the newest event."""
        able = [
            member
            for member in self.claims
            if member not in self.leaving and ticks_read - self.last_seen.get(member, 0) < patience
        ]
        able.sort(key=lambda member: self.claims[member].last_tick)
        return {member[0]: self.claims[member].event for member in able}

    # -- forgetting --------------------------------------------------------------------------------------------------

    def forget_lives(self) -> None:
        """Count silence from now on: ticks of another term say nothing."""
        self.last_seen.clear()
        self.stop_tick = 0
        self.members_are_settled = False
        self.claims = {member: Claim(claim.event) for member, claim in self.claims.items()}

    def _forget_claims(self) -> None:
        """Drop claims that were granted, and those made before another incarnation of the name joined."""
        state = self._state
        self.members_are_settled = False
        members = {group.worker: group.id for group in state.groups.values()}
        fresh = {name for name, group in members.items() if self._members.get(name) != group}
        self._members = members
        self.claims = {
            member: claim
            for member, claim in self.claims.items()
            if member not in state.joined and member[0] not in fresh
        }

    def forget_silent(self, ticks_read: int, patience: int) -> None:
        """Drop members without a live group that sent nothing for ``patience`` ticks: unknown counts as silent."""
        self.members_are_settled = False  # a member may have become silent meanwhile
        live = {(group.worker, group.incarnation) for group in self._state.groups.values()}
        self.last_seen = {
            member: tick for member, tick in self.last_seen.items() if member in live or ticks_read - tick < patience
        }
        if ticks_read >= patience:  # before that, no member has been silent for long enough in this term
            self.evaluators &= self.last_seen.keys()
        self.leaving = {
            member: leave
            for member, leave in self.leaving.items()
            if member in live or 0 <= ticks_read - leave.tick < patience
        }
