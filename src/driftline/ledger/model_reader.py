"""Reading a run as an outsider: the ledger from where it was entered, parameters from the newest complete version on.

Workers, evaluators, `load` and `status` all stand on this.
"""

from driftline.broker.port import Tail
from driftline.broker.topics import Stream
from driftline.ledger.follower import Follower
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.effects import CaughtUp, Effect, Read, Received
from driftline.schemas.model.layout import Layout

SPARE_RECORDS = 8
"""Read this many more than one version's parameters a partition, for doubles that a fail-over may have left."""


class ModelReader:
    """Fold of the ledger plus the newest complete model.

    Args:
        state: the fold to go on with; None begins with the ledger.
        with_parameters: False reads the ledger alone.
    """

    def __init__(self, state: RunState | None = None, *, with_parameters: bool = True) -> None:
        self.state = RunState() if state is None else state
        self.follower = Follower(self.state)
        self.is_caught_up = False
        self._with_parameters = with_parameters
        self._tail = 0
        self._ends: dict[int, int] = {}

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return [Read(Stream.LEDGER, 0, self.state.next_offset)]

    def on_ledger(self, event: Received) -> tuple[Folded, list[Effect]]:
        """Fold a ledger record; parameters that waited for it are taken."""
        folded = self.state.read(event.offset, event.value)
        self.follower.on_ledger()
        return folded, self._open_parameters()

    def on_parameters(self, event: Received) -> bool:
        """Take a parameters record; return whether a new version became complete."""
        return self.follower.on_parameters(event.value)

    def on_caught_up(self, event: CaughtUp) -> list[Effect]:
        """The end of a partition was reached."""
        if event.stream is Stream.LEDGER:
            self.is_caught_up = True
            return self._open_parameters()
        if event.stream is Stream.PARAMETERS:
            return self._look_further_back(event)
        return []

    def _open_parameters(self) -> list[Effect]:
        if not self._with_parameters or self._tail or not self.is_caught_up or not self.state.has_begun:
            return []
        layout = self.state.layout
        shards = max(len(layout.shards_of(partition)) for partition in range(layout.partitions))
        self._tail = 2 * shards + SPARE_RECORDS
        return self._read_tails(layout)

    def _look_further_back(self, event: CaughtUp) -> list[Effect]:
        """Double the tail until it holds a complete version or the whole partition."""
        layout = self.state.layout
        self._ends[event.partition] = event.offset
        if self.follower.newest is not None or len(self._ends) < layout.partitions:
            return []
        if self._tail >= max(self._ends.values()):
            return []
        self._tail *= 2
        return self._read_tails(layout)

    def _read_tails(self, layout: Layout) -> list[Effect]:
        self._ends.clear()
        return [Read(Stream.PARAMETERS, partition, Tail(self._tail)) for partition in range(layout.partitions)]
