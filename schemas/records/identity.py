"""What records share: who a member or a replica group is, and the values that stand for "none yet"."""

from dataclasses import dataclass
from typing import Final

NO_HASH = bytes(32)
"""The head before the first ledger record."""

NO_RUN = bytes(16)
"""The run UUID in events that are sent before the run has one."""


MAX_NAME_CHARS: Final = 64
"""Characters of the name of a worker, server or evaluator."""


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


def is_member_name(name: str) -> bool:
    """Whether a worker, server or evaluator can have this name: it is printable, and a file can have it too."""
    return (
        1 <= len(name) <= MAX_NAME_CHARS
        # Neither control characters nor lone surrogates are printable.
        and name.isprintable()
        and name == name.strip()
        and not name.startswith(".")
        and not set(name) & {"/", "\\"}
    )
