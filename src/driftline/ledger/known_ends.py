"""Whether the deltas that the ledger knows of are there: a log that ends before them is another one, or was cut short.

Every delta is in the log before the record that names its offset. So an end that was looked up after that record was
read, and stands before the offset, is proof; an end that a reader came to may be older than what it is compared with,
and is a reason to look.
"""

from collections.abc import Mapping
from typing import Final

from driftline.broker.topics import Stream, topic_name
from driftline.ledger.run_state import RunState
from driftline.schemas.effects import AskEnds, Effect, Finish

WAY_OUT: Final = "bring its topics back as they were, or begin a run of another name"
"""What can be done for a run of which something is lost."""

OWNER: Final = "owner"
"""Who asks: the owner of partitions, not the coordinator of the same process."""


class KnownEnds:
    """Looks after partitions whose deltas seem to end too soon; one question at a time.

    Args:
        state: fold of the ledger, shared with the process.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._suspected: set[int] = set()
        self._asked: dict[int, int] = {}
        self._answer_due = False

    def forget(self, partitions: set[int]) -> None:
        """These are no longer ours."""
        self._suspected -= partitions
        self._asked = {partition: known for partition, known in self._asked.items() if partition not in partitions}

    def on_read_to_end(self, partition: int, end: int) -> list[Effect]:
        """The deltas of a partition of ours have been read to where they end."""
        if end >= self._known(partition):
            return []
        self._suspected.add(partition)
        return self._ask()

    def on_ends(self, ends: Mapping[int, int]) -> list[Effect]:
        """Where the deltas ended after they were asked about; empty if Kafka did not answer."""
        asked, self._asked, self._answer_due = self._asked, {}, False
        if not ends:
            self._suspected |= asked.keys()
        short = {partition: known for partition, known in asked.items() if ends and ends.get(partition, 0) < known}
        if not short:
            return self._ask()
        partition, known = min(short.items())
        return [Finish("deltas are missing", self._missing(partition, known, ends.get(partition, 0)))]

    def _ask(self) -> list[Effect]:
        if self._answer_due or not self._suspected:
            return []
        self._answer_due = True
        self._asked = {partition: self._known(partition) for partition in self._suspected}
        self._suspected.clear()
        return [AskEnds(Stream.DELTAS, OWNER)]

    def _known(self, partition: int) -> int:
        return self._state.deltas_end.get(partition, 0)

    def _missing(self, partition: int, known: int, end: int) -> str:
        topic = topic_name(self._state.config.name, Stream.DELTAS)
        return (
            f"{topic} partition {partition} ends at offset {end}, and the ledger uses deltas "
            f"up to offset {known}: the topic was deleted, made again or cut short; {WAY_OUT}"
        )
