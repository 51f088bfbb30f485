"""Decoding each record once, for the many readers of one small log in one process."""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from driftline.schemas import codec


@contextmanager
def reading_once() -> Iterator[None]:
    """Within this context, decode equal bytes once and return the same record each time.

    Everything that is read stays in memory. Records that hold a map, which is mutable, are decoded each time.
    """
    forms = {
        prefix: form if _holds_maps(form.record) else dataclasses.replace(form, read=_once(form.read))
        for prefix, form in vars(codec)["_BY_PREFIX"].items()
    }
    with mock.patch.object(codec, "_BY_PREFIX", forms):
        yield


def _once(read: Callable[[bytes, int], Any]) -> Callable[[bytes, int], Any]:
    known: dict[bytes, Any] = {}

    def reading(data: bytes, at: int) -> Any:
        record = known.get(data)
        if record is None:
            record = known[data] = read(data, at)
        return record

    return reading


@cache
def _holds_maps(kind: Any) -> bool:
    if typing.get_origin(kind) in (dict, Mapping):
        return True
    inner = typing.get_type_hints(kind).values() if dataclasses.is_dataclass(kind) else typing.get_args(kind)
    return any(map(_holds_maps, inner))
