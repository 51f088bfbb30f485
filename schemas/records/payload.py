"""Payload records: tensors, each with its own digest as the first field and the bytes as the last."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from driftline.schemas.records.identity import GroupId

PayloadBytes: TypeAlias = bytes | memoryview | npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One shard of one contribution. ``presence`` has one bit a segment piece of the shard, least significant first.

    Of parameters the payload holds the gradient; of buffers their value after the clock.
    """

    digest: bytes
    group: GroupId
    clock: int
    shard: int
    base_version: int
    codec: str
    elements: int
    presence: bytes
    payload: PayloadBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """One shard of the masters, weights and buffers, at a published version. ``head`` is the ledger's hash there."""

    digest: bytes
    version: int
    head: bytes
    shard: int
    codec: str
    elements: int
    state_digest: bytes
    payload: PayloadBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One tensor of one shard at a version: ``tensor`` is ``master`` or the name of an optimizer moment.

    ``head`` is the ledger's head hash at that version, and `NO_HASH` for version 0, which precedes the ledger.
    """

    digest: bytes
    version: int
    head: bytes
    shard: int
    tensor: str
    codec: str
    elements: int
    payload: PayloadBytes


def snapshot_key(shard: int, version: int, tensor: str, digest: bytes) -> bytes:
    """Return the key of a snapshot in its compacted topic: the digest in it keeps other runs and contents apart."""
    return f"{shard}/{version}/{tensor}/{digest.hex()}".encode()
