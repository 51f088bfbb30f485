"""A thread that flushes denormals to zero is put right before it computes, or refused."""

import ctypes
import ctypes.util
import platform
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from driftline.consumers.server.shard import Shard
from driftline.errors import RunRefused
from driftline.rules import flush_to_zero
from driftline.schemas.run.config import RuleConfig
from tests.support.shard_models import cut

UPWARD = {"x86_64": 0x800, "aarch64": 0x40_0000, "arm64": 0x40_0000}
"""FE_UPWARD of <fenv.h>, by machine."""


def in_a_flushing_thread(work: Callable[[], object]) -> object:
    """Run ``work`` in a thread of its own that flushes denormals, as some libraries leave theirs."""
    results: list[object] = []

    def run() -> None:
        if not torch.set_flush_denormal(True):
            results.append(None)
            return
        try:
            results.append(work())
        except RunRefused as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if results == [None]:
        pytest.skip("this CPU cannot flush denormals")
    return results[0]


def denormal_bits() -> bytes:
    """Train with denormal weights, gradients and products; return the bytes of the masters."""
    masters = np.full(1000, 0x0040_0001, np.uint32).view(np.float32)
    shard = Shard(cut([("w", 1000, 0)]), RuleConfig(name="sgd", groups=({"momentum": 0.5},)), 0, masters)
    for version in (1, 2):
        shard.apply(version, [(np.float32(0.5), masters, [True])] * 2, [0.25], 1.0)
    return shard.masters.tobytes()


def test_flushing_changes_the_bits_of_a_model() -> None:
    """The reason for the guard: without it such a thread computes another model."""
    assert flush_to_zero.probe() == []
    assert in_a_flushing_thread(denormal_bits) != denormal_bits()


def test_the_guard_restores_denormals() -> None:
    """Afterwards the thread computes what all others do."""

    def guarded() -> object:
        before = flush_to_zero.probe()
        flush_to_zero.require_denormals()
        return len(before) >= 3, flush_to_zero.probe(), denormal_bits()

    assert in_a_flushing_thread(guarded) == (True, [], denormal_bits())


def test_a_thread_started_by_a_flushing_one_is_restored_too() -> None:
    """Threads inherit the mode, so every shard thread calls the guard for itself."""

    def child() -> object:
        results: list[bytes] = []

        def run() -> None:
            flush_to_zero.require_denormals()
            results.append(denormal_bits())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return results

    assert in_a_flushing_thread(child) == [denormal_bits()]


def test_a_thread_that_cannot_be_restored_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better no server than one that computes another model."""
    monkeypatch.setattr(flush_to_zero, "clear_flush_to_zero", lambda: None)
    error = in_a_flushing_thread(flush_to_zero.require_denormals)
    assert isinstance(error, RunRefused)
    assert "a denormal product becomes zero" in str(error)
    assert "run the server without it, or on another machine" in str(error)


def test_another_rounding_direction_is_found() -> None:
    """The probe looks at rounding as well: it changes the bits just as silently."""
    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    if library.fesetround(UPWARD.get(platform.machine(), -1)) != 0:
        pytest.skip("the rounding direction of this CPU has another name")
    try:
        problems = flush_to_zero.probe()
        flush_to_zero.require_denormals()
    finally:
        library.fesetround(0)
    assert "sums are not rounded to nearest" in problems
