"""What a person asks `driftline show` for: a record by its position, a version, the difference of two versions."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from driftline.broker.topics import SHARDED, Stream
from driftline.errors import UsageError

HEAD = "head"
FORMS = (
    "a version is a number or `head`, two versions are 3..7, a record is ledger@12 or deltas/3@100 "
    "(stream/partition@offset; @-1 is the last one)"
)

_RECORD = re.compile(r"([a-z]+)(?:/(\d{1,9}))?@(-?\d{1,18})")
_VERSION = re.compile(r"(\d{1,18}|head)(?:\.\.(\d{1,18}|head))?")


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """One record. A negative offset counts from the end: -1 is the last record."""

    stream: Stream
    partition: int
    offset: int

    def __str__(self) -> str:
        partition = f"/{self.partition}" if self.stream in SHARDED else ""
        return f"{self.stream.value}{partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class OneVersion:
    """One version; None is the newest."""

    version: int | None


@dataclass(frozen=True, slots=True)
class TwoVersions:
    """What changed from the first version to the second; None is the newest."""

    first: int | None
    second: int | None


Selection: TypeAlias = RecordPosition | OneVersion | TwoVersions


def parse_selection(text: str) -> Selection:
    """Parse one of `FORMS`.

    Raises:
        UsageError: it is none of them; names them.
    """
    record = _RECORD.fullmatch(text)
    if record is not None:
        return _position(text, record[1], record[2], int(record[3]))
    versions = _VERSION.fullmatch(text)
    if versions is None:
        raise UsageError(f"{text!r} is neither a version nor a record: {FORMS}")
    first, second = (None if word in (HEAD, None) else int(word) for word in versions.groups())
    return OneVersion(first) if versions[2] is None else TwoVersions(first, second)


def _position(text: str, word: str, partition: str | None, offset: int) -> RecordPosition:
    names = [stream.value for stream in Stream]
    if word not in names:
        near = get_close_matches(word, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"{text!r}: {word!r} is no stream of a run; {hint}")
    stream = Stream(word)
    if stream in SHARDED and partition is None:
        raise UsageError(f"{text!r}: {word} has several partitions; write for example {word}/0@{offset}")
    return RecordPosition(stream, int(partition or 0), offset)
