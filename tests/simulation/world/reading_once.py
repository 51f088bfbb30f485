"""Decoding each record once, for the many readers of one small log in one process."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from driftline.schemas import codec


@contextmanager
def reading_once() -> Iterator[None]:
    """Within this context, decode equal bytes once and return the same record each time.

    Everything that is read stays in memory. Records that hold a map, which is mutable, are decoded each time.
    """
    forms = {
        prefix: dataclasses.replace(form, read=_once(form.read)) for prefix, form in vars(codec)["_BY_PREFIX"].items()
    }
    with mock.patch.object(codec, "_BY_PREFIX", forms):
        yield


def _once(read: Callable[[bytes, int], Any]) -> Callable[[bytes, int], Any]:
    known: dict[bytes, Any] = {}

    def reading(data: bytes, at: int) -> Any:
        record = known.get(data)
        if record is None:
            record = read(data, at)
            if not _holds_map(record):
                known[data] = record
        return record

    return reading


def _holds_map(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_map, value))
    if dataclasses.is_dataclass(value):
        return any(_holds_map(getattr(value, one.name)) for one in dataclasses.fields(value))
    return isinstance(value, dict)
