"""Progress on stderr: one line that changes on a terminal, a plain line every two seconds elsewhere."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from driftline.observe.records.values import count
from driftline.observe.run.progress import Progress

REFRESH_S = 0.1
PLAIN_S = 2.0
LONG_S = 2.0
"""A phase that takes longer shows its seconds: a line that does not change looks like a hang."""

_GAP = "  "
_ERASE = "\r\x1b[K"


def progress_words(seen: Progress) -> list[str]:
    """Return the parts of a progress line, the most important first: a narrow terminal shows only those."""
    words = [seen.run]
    if seen.steps:
        words.append(f"version {seen.version}/{seen.steps}")
    elif seen.version:
        words.append(f"version {seen.version}")
    if seen.epochs:
        words.append(f"epoch {min(seen.epoch + 1, seen.epochs)}/{seen.epochs}")
    if seen.phase:
        words.append(seen.phase)
    if seen.loss is not None:
        words.append(f"loss {seen.loss:.3f}")
    metrics = metric_words(seen.metrics)
    words += metrics[:1]
    if seen.version:
        words.append(count(seen.workers, "worker"))
        if seen.waiting_share is not None:
            words.append(f"waiting {seen.waiting_share:.0%}")
        words += [f"staleness {seen.staleness}", f"{seen.wire_bytes / 1e6:.1f} MB"]
    return words + metrics[1:]


def metric_words(metrics: Mapping[str, float]) -> list[str]:
    """Return ``name value`` for every metric; the loss on held-out data is called ``test loss``."""
    return [f"{'test loss' if name == 'loss' else name} {value:.3f}" for name, value in metrics.items()]


def _fitted(words: list[str], width: int) -> str:
    """Return as many whole words as fit; only the first may be cut."""
    line = words[0][:width]
    for word in words[1:]:
        if len(line) + len(_GAP) + len(word) > width:
            break
        line += _GAP + word
    return line


class ProgressLine:
    """Writes to stderr, so that stdout stays free for results."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._updates_in_place = self._stream.isatty()
        self._next_s = 0.0
        self._shown = ""
        self._phase, self._phase_since_s = "", 0.0

    def show(self, seen: Progress) -> None:
        """Show progress, if the last time was long enough ago."""
        now_s = time.monotonic()
        if seen.phase != self._phase:
            self._phase, self._phase_since_s = seen.phase, now_s
        if now_s < self._next_s and seen.phase != "ended":
            return
        self._next_s = now_s + (REFRESH_S if self._updates_in_place else PLAIN_S)
        words = progress_words(seen)
        line = _GAP.join(words)
        if self._updates_in_place:
            phase_s = now_s - self._phase_since_s
            if seen.phase and seen.phase != "ended" and phase_s >= LONG_S:
                words.insert(words.index(seen.phase, 1) + 1, f"{phase_s:.0f} s")
            self._write(f"{_ERASE}{_fitted(words, shutil.get_terminal_size().columns - 1)}")
        elif line != self._shown:
            self._write(f"{line}\n")
        self._shown = line

    def say(self, text: str) -> None:
        """Write lines that stay."""
        self.clear()
        self._write(f"{text}\n")

    def clear(self) -> None:
        """Remove the changing line."""
        if self._updates_in_place and self._shown:
            self._write(_ERASE)
            self._shown = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
