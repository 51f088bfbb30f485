"""State machines that request one thing of the coordinator, and read in the ledger what became of it.

Both repeat the request whenever a new coordinator takes over, because the former may have dropped it.
"""

from driftline.broker.topics import Stream
from driftline.ledger.run_state import Folded, RunState
from driftline.producers.proposal import Offer, Proposed, propose
from driftline.schemas.codec import encode
from driftline.schemas.effects import CaughtUp, Effect, Finish, Input, Read, Received, Send, SendFailed
from driftline.schemas.model.layout import layout_differences
from driftline.schemas.records import RunStart, StopRequest, TermStart
from driftline.schemas.run.config_json import differences
from driftline.schemas.run.other_settings import SETTINGS_OR_MODEL, exists_otherwise

CREATED = "created"
EXISTS = "exists"
REFUSED = "refused"
ENDED = "ended"


class _Request:
    """Reads the ledger to its end, sends the request, and repeats it."""

    def __init__(self, state: RunState | None = None) -> None:
        self.state = RunState() if state is None else state
        self._is_caught_up = False

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return [Read(Stream.LEDGER, 0, self.state.next_offset)]

    def on(self, event: Input) -> list[Effect]:
        """Take one input and return what it leads to."""
        match event:
            case Received(stream=Stream.LEDGER):
                return self._on_ledger(self.state.read(event.offset, event.value))
            case CaughtUp(stream=Stream.LEDGER) if not self._is_caught_up:
                self._is_caught_up = True
                return self._answer() or self._request()
            case SendFailed():
                return [event.send]
        return []

    def _on_ledger(self, folded: Folded) -> list[Effect]:
        if not self._is_caught_up or folded.record is None:
            return []
        again = self._request() if isinstance(folded.record, TermStart) else []
        return self._answer() or again

    def _answer(self) -> list[Effect]:
        """Return the end of this machine, if the ledger holds the answer."""
        raise NotImplementedError

    def _request(self) -> list[Effect]:
        """Return the records that make the request."""
        raise NotImplementedError


class StopRequester(_Request):
    """Requests the end of a run.

    Args:
        sender: a legal name of a member; the ledger records it.
        reason: of the end.
        state: the fold of the ledger to go on with; None begins with the ledger.
    """

    def __init__(self, sender: str, reason: str, state: RunState | None = None) -> None:
        super().__init__(state)
        self._sender, self._reason = sender, reason

    def _answer(self) -> list[Effect]:
        if self.state.ended is not None:
            return [Finish(ENDED)]
        return [] if self.state.has_begun else [Finish(REFUSED, "it has not begun: no server has accepted it")]

    def _request(self) -> list[Effect]:
        if not self.state.has_begun:
            return []
        request = StopRequest(run=self.state.start.run, sender=self._sender, reason=self._reason)
        return [Send(Stream.EVENTS, 0, encode(request))]


class RunCreator(_Request):
    """Proposes a run, and ends when the run has started; never becomes a member of it.

    Args:
        offer: settings, layout and version 0.
        run_uuid: UUID of the run if this proposal is chosen, 16 bytes.
        name: of the proposer, a legal name of a member.
        incarnation: 16 bytes.
    """

    def __init__(self, offer: Offer, run_uuid: bytes, name: str, incarnation: bytes) -> None:
        super().__init__()
        self._offer, self._run_uuid, self._name, self._incarnation = offer, run_uuid, name, incarnation
        self._proposed: Proposed | None = None

    def _answer(self) -> list[Effect]:
        if not self.state.has_begun:
            return []
        start = self.state.start
        if self._proposed is not None and start.run == self._proposed.run:
            return [Finish(CREATED)]
        cleared: list[Effect] = [] if self._proposed is None else [*self._proposed.tombstones()]
        return [*cleared, self._compared(start)]

    def _compared(self, start: RunStart) -> Finish:
        found = differences(self._offer.config, self.state.config)
        found += layout_differences(self._offer.layout, self.state.layout)
        if not found:
            return Finish(EXISTS)
        return Finish(REFUSED, exists_otherwise(start.name, SETTINGS_OR_MODEL, found))

    def _request(self) -> list[Effect]:
        if self.state.has_begun:
            return []
        if self._proposed is not None:
            return [self._proposed.event]
        self._proposed = propose(self._offer, self._run_uuid, self._name, self._incarnation)
        return [*self._proposed.snapshots, self._proposed.event]
