"""Which seeds of a range are done: one file a range and state of the code, one line a block of seeds."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.simulation.seeds.tally import Tally, tally_from_json

BLOCK = 10
"""Seeds that are done together; what is interrupted loses at most so many a process."""


def blocks(seeds: range) -> Iterator[range]:
    """Cut a range into blocks, in order; the last may be shorter."""
    for first in range(seeds.start, seeds.stop, BLOCK):
        yield range(first, min(first + BLOCK, seeds.stop))


class Progress:
    """The blocks of a range that are done, with what they add up to.

    Args:
        seeds: the range.
        folder: of the files; created if need be. None keeps nothing.
        code: of what is simulated, see `code_digest`: seeds that other code has passed do not count.
    """

    def __init__(self, seeds: range, folder: Path | None, code: str) -> None:
        self.seeds = seeds
        self.path = None if folder is None else folder / f"{seeds.start}-{seeds.stop}-{code}.jsonl"
        self._done = {} if self.path is None else _read(self.path)

    def left(self) -> Iterator[range]:
        """Go through the blocks that are not done."""
        return (block for block in blocks(self.seeds) if block.start not in self._done)

    def done(self, block: range, tally: Tally) -> None:
        """Keep what a block adds up to; once this returns, an end of the process loses nothing of it."""
        if block.start in self._done:
            return
        self._done[block.start] = tally
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{block.start} {tally.to_json()}\n")

    def total(self) -> Tally:
        """Add up what is done."""
        total = Tally()
        for first in sorted(self._done):
            total.add(self._done[first])
        return total


def _read(path: Path) -> dict[int, Tally]:
    """Read what is there, and cut off a last line that was not written to its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    lines = (line.split(" ", 1) for line in whole.splitlines())
    return {int(first): tally_from_json(tally) for first, tally in lines}


def code_digest() -> str:
    """Return 12 characters that say which code is running: a hash over every module of ours that is loaded."""
    digest = hashlib.sha256()
    for name in sorted(name for name in sys.modules if name.split(".")[0] in ("driftline", "tests")):
        file = getattr(sys.modules[name], "__file__", None)
        digest.update(name.encode() + (b"" if file is None else Path(file).read_bytes()))
    return digest.hexdigest()[:12]
