"""Invariant 6: at every moment the last checkpoint, the ledger and the kept deltas rebuild the head.

A new server reads the log as it is, owns every partition, and must hold the reference's bits.
"""

from collections import deque
from collections.abc import Iterable

from driftline.broker.topics import Stream
from driftline.consumers.server.server import Server
from driftline.ledger.entering.entry import FIRST_BLOCK
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import peek_type
from driftline.schemas.effects import (
    CaughtUp,
    Effect,
    Finish,
    Input,
    PartitionsAssigned,
    Read,
    ResumeDeltas,
    Send,
    Sent,
)
from driftline.schemas.records import RunEnd
from tests.simulation.promises.entering import enter
from tests.simulation.promises.records import Promises
from tests.simulation.promises.reference_ledger import require
from tests.simulation.run.log import Place, RunLog
from tests.simulation.run.scenario import seeded


def require_rebuilds(log: RunLog, promises: Promises) -> None:
    """Rebuild the head from the log alone.

    Raises:
        Violation: something that is needed is not there any more, or other bits come out.
    """
    if promises.ledger.start is not None:
        _require_rebuild(log, promises, RunState())
        _require_rebuild(log, promises, enter(log, promises, FIRST_BLOCK))


def _require_rebuild(log: RunLog, promises: Promises, state: RunState) -> None:
    """Let a newcomer go on from a state."""
    partitions = promises.problem.config.partitions
    reader = _Newcomer(log, state)
    reader.give(PartitionsAssigned(Stream.DELTAS, tuple(range(partitions))))
    version, layout = promises.ledger.now.version, promises.problem.layout
    for partition in range(partitions):
        owned = reader.server.shards.owned.get(partition)
        if owned is None or not owned.is_loaded:
            raise AssertionError(f"partition {partition} was neither rebuilt nor refused")
        require(owned.version == version, f"partition {partition} is rebuilt to version {owned.version}, not {version}")
        for shard, one in owned.shards.items():
            right = promises.model.states[version].masters[slice(*layout.shard_range(shard))]
            require(one.masters.tobytes() == right.tobytes(), f"shard {shard} of version {version} is rebuilt wrong")


class _Newcomer:
    """A server to which everything that it asks for is given at once."""

    def __init__(self, log: RunLog, state: RunState) -> None:
        self.server = Server("newcomer", bytes(16), seeded("newcomer"), state)
        self._log = log
        self._inputs: deque[Input] = deque()
        self._carry(self.server.begin())
        self._work()

    def give(self, event: Input) -> None:
        """Hand over one input, and what follows from it."""
        self._inputs.append(event)
        self._work()

    def _work(self) -> None:
        while self._inputs:
            self._carry(self.server.on(self._inputs.popleft()))

    def _carry(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Read():
                    place = (effect.stream, effect.partition)
                    self._read(place, self._log.resolve(place, effect.position))
                case ResumeDeltas(partitions, begin):
                    for index, partition in enumerate(partitions):
                        place = (Stream.DELTAS, partition)
                        first = self._log.begin(place)
                        require(
                            not begin or begin[index] >= first, f"deltas {begin} are gone, the log begins at {first}"
                        )
                        self._read(place, begin[index] if begin else first)
                case Send(tell=True):
                    self._inputs.append(Sent.of(effect, 0))
                case Finish():
                    require(not effect.failure, f"a newcomer cannot rebuild the run: {effect.failure}")
                case _:
                    pass

    def _read(self, place: Place, offset: int) -> None:
        stream, partition = place
        while (record := self._log.read(place, offset)) is not None:
            offset = record.offset + 1
            if peek_type(record.value) is RunEnd:
                continue  # behind which a server would rest
            self._inputs.append(record)
        self._inputs.append(CaughtUp(stream, partition, offset))
