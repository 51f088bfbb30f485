"""Results are written down as soon as they are measured, whatever becomes of the others."""

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.__main__ import Needs, Part


def _broken(_needs: Needs) -> dict[str, float]:
    raise RuntimeError("a promise was not kept")


@pytest.fixture(autouse=True)
def latest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where results are written; three parts, of which the second does not work."""
    parts = {
        "first": Part("{kills} of the first", lambda needs: {"first_s": float(needs.arguments.kills)}),
        "broken": Part("broken", _broken),
        "last": Part("the last", lambda _: {"last_s": 2.0}),
    }
    monkeypatch.setattr(bench, "PARTS", parts)
    monkeypatch.setattr(bench, "LATEST", tmp_path / "latest.json")
    return tmp_path / "latest.json"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    return bench.main()


def test_a_part_that_does_not_work_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], latest: Path
) -> None:
    assert _run(monkeypatch, "--kills", "7") == 1
    document = json.loads(latest.read_text())
    assert (document["first_s"], document["last_s"]) == (7.0, 2.0)
    assert set(document["conditions"]) == {"first", "last"}
    assert "broken did not work: RuntimeError: a promise was not kept" in capsys.readouterr().out


def test_one_part_alone_leaves_the_figures_of_others(monkeypatch: pytest.MonkeyPatch, latest: Path) -> None:
    assert _run(monkeypatch, "--only", "first", "last", "--kills", "7") == 0
    assert _run(monkeypatch, "--only", "first", "--kills", "9") == 0
    document = json.loads(latest.read_text())
    assert (document["first_s"], document["last_s"]) == (9.0, 2.0)
    assert document["conditions"]["first"]["arguments"]["kills"] == 9
    assert document["conditions"]["last"]["arguments"]["kills"] == 7
