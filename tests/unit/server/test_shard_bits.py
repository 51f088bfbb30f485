"""The bits of a model do not depend on how, where and in how many pieces it is computed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from driftline.consumers.server import shard
from driftline.rules import FloatArray
from tests.support.shard_models import (
    ELEMENTS,
    RULES_UNDER_TEST,
    SEGMENTS,
    Contribution,
    Model,
    cut,
    digest_of,
    digest_of_story,
    numbers,
    story,
)

ROOT = Path(__file__).parents[3]
every_rule = pytest.mark.parametrize("rule", RULES_UNDER_TEST)


@every_rule
@pytest.mark.parametrize("partitions", [3, 64])
def test_bits_do_not_depend_on_the_cut_into_shards(rule: str, partitions: int) -> None:
    """Segments are cut anywhere, and blocks begin anywhere."""
    assert digest_of_story(rule, partitions) == digest_of_story(rule)


@every_rule
@pytest.mark.parametrize("block", [1, 3, 65536])
def test_bits_do_not_depend_on_the_block(rule: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Down to one element at a time, which no vector unit computes."""
    segments = [("a", 301, 0), ("b", 7, 1)]

    def trained() -> str:
        model = Model(cut(segments), RULES_UNDER_TEST[rule], numbers("masters", 308))
        for version in range(3):
            model.apply([Contribution(0.3, numbers(f"{version} {n}", 308)) for n in range(2)], [0.1, 0.2], 0.75)
        return digest_of(model.tensors())

    expected = trained()
    monkeypatch.setattr(shard, "BLOCK", block)
    assert trained() == expected


@every_rule
@pytest.mark.parametrize("threads", range(1, 9))
def test_bits_do_not_depend_on_the_number_of_threads(rule: str, threads: int) -> None:
    """Shards share nothing, not even scratch memory."""
    assert digest_of_story(rule, 16, threads=threads) == digest_of_story(rule)


@every_rule
@pytest.mark.parametrize("offset", [1, 4, 62])
def test_bits_do_not_depend_on_the_alignment_of_messages(rule: str, offset: int) -> None:
    """A payload begins wherever its header ends, at any byte, whether it is summed or taken as it is."""

    def misplaced(values: FloatArray) -> FloatArray:
        message = bytes(offset) + values.tobytes()
        return np.frombuffer(message, np.float32, offset=offset)

    model = Model(cut(SEGMENTS), RULES_UNDER_TEST[rule], misplaced(numbers("masters", ELEMENTS)))
    for contributions, learning_rates, rho in story():
        moved = [Contribution(c.coefficient, misplaced(c.gradient), c.absent) for c in contributions]
        model.apply(moved, learning_rates, rho)
    assert digest_of(model.tensors()) == digest_of_story(rule)


def vector_units() -> list[str]:
    """Return what numpy uses of this CPU beyond its baseline, in the names of this version of numpy."""
    features: list[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # type: ignore[index, call-overload, unused-ignore]
    return features


def digests_elsewhere(disabled: list[str]) -> list[str]:
    """Compute the story of every rule in a process whose numpy may not use some of the CPU."""
    code = "from tests.support.shard_models import *\nprint(*map(digest_of_story, RULES_UNDER_TEST))"
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled)}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


@pytest.mark.skipif(not vector_units(), reason="numpy uses nothing of this CPU beyond its baseline")
@pytest.mark.parametrize("keep", [0, 1])
def test_bits_do_not_depend_on_the_vector_unit(keep: int) -> None:
    """With none, then with the narrowest of the optional instruction sets: as on older CPUs."""
    assert digests_elsewhere(vector_units()[keep:]) == [digest_of_story(rule) for rule in RULES_UNDER_TEST]
