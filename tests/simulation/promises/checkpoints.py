"""The state that a checkpoint carries: a process that begins there knows as much as one that has folded everything."""

from driftline.errors import IntegrityError
from driftline.ledger.restore import NotRestorable, restore
from driftline.ledger.run_state import RunState
from driftline.schemas.records import Checkpoint
from tests.simulation.promises.reference_ledger import Violation, require
from tests.support.state_difference import state_difference


class CheckedStates:
    """Folds the whole ledger once, and at each checkpoint once more from there.

    Attributes:
        compared: checkpoints whose states were restored, folded on, and found to be the same.
    """

    def __init__(self) -> None:
        self.compared = 0
        self._state = RunState()
        self._values: list[bytes | None] = []

    def read(self, value: bytes | None) -> None:
        """Take the next record of the ledger.

        Raises:
            Violation: it is a checkpoint that counts, and its state is another one than the ledger's.
        """
        before = set(self._state.dumps)
        self._values.append(value)
        try:
            record = self._state.read(len(self._values) - 1, value).record
        except IntegrityError as error:
            raise Violation(f"a record counts that cannot be: {error}") from None
        if isinstance(record, Checkpoint):
            require(bool(record.state) or record.version not in before, f"checkpoint {record.version} has no state")
            self._compare(record)

    def _compare(self, record: Checkpoint) -> None:
        self._state.forget_before(record.version)
        if record.state:
            try:
                state = restore(record, self._state.start)
            except NotRestorable as error:
                raise Violation(f"a checkpoint counts, and no process can begin there: {error}") from None
            for offset in range(state.next_offset, len(self._values)):
                state.read(offset, self._values[offset])
            state.forget_before(record.version)
            difference = state_difference(self._state, state)
            require(not difference, f"from checkpoint {record.version} another state is folded: {difference}")
            self.compared += 1
