"""What records share: the identity of a replica group, and the values that stand for "none yet"."""

from dataclasses import dataclass

NO_HASH = bytes(32)
"""The head before the first ledger record."""

NO_RUN = bytes(16)
"""The run UUID in events that are sent before the run has one."""


@dataclass(frozen=True, slots=True, order=True)
class GroupId:
    """A replica group: the ledger offset and the index in that record of the `Join` that made it; never used again."""

    offset: int
    index: int

    def __hash__(self) -> int:
        """Hash by hand: the generated one builds a tuple, and a coordinator of many groups does little else."""
        return self.offset << 10 ^ self.index

    def __str__(self) -> str:
        return f"{self.offset}.{self.index}"
