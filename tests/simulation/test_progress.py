"""A long run of seeds goes on where it was interrupted, and counts each seed once."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from tests.simulation import __main__ as command_line
from tests.simulation.__main__ import INTERRUPTED, main
from tests.simulation.seeds.progress import BLOCK, Progress, blocks, code_digest
from tests.simulation.seeds.tally import Tally, tally_from_json

SEEDS = range(30, 30 + 2 * BLOCK + 7)


def tally(block: range) -> Tally:
    return Tally(
        seeds=len(block),
        events=1000 * len(block),
        fewest_events=900 + block.start,
        fewest_kinds=5,
        faults=Counter({"STALL": 2}),
        modes=Counter({"sync": len(block)}),
        failed={block.start: "seed, event 7: no end"},
    )


def test_blocks_are_the_range_in_order() -> None:
    assert [seed for block in blocks(SEEDS) for seed in block] == list(SEEDS)
    assert [len(block) for block in blocks(SEEDS)] == [BLOCK, BLOCK, 7]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first, second, third = blocks(SEEDS)
    Progress(SEEDS, tmp_path, "code").done(second, tally(second))
    again = Progress(SEEDS, tmp_path, "code")
    assert list(again.left()) == [first, third]
    again.done(third, tally(third))
    again.done(first, tally(first))
    assert not list(again.left())
    assert not list(Progress(SEEDS, tmp_path, "code").left())


def test_the_total_is_that_of_one_go_whatever_the_order(tmp_path: Path) -> None:
    whole = Progress(SEEDS, None, "code")
    for block in blocks(SEEDS):
        whole.done(block, tally(block))
    for block in reversed(list(blocks(SEEDS))):
        Progress(SEEDS, tmp_path, "code").done(block, tally(block))
    total = Progress(SEEDS, tmp_path, "code").total()
    assert total == whole.total()
    assert total.seeds == len(SEEDS)
    assert total.fewest_events == 930
    assert total.faults == Counter({"STALL": 6})
    assert sorted(total.failed) == [block.start for block in blocks(SEEDS)]


def test_a_block_that_two_commands_have_done_counts_once(tmp_path: Path) -> None:
    block = next(blocks(SEEDS))
    one, other = (Progress(SEEDS, tmp_path, "code") for _ in range(2))
    one.done(block, tally(block))
    other.done(block, tally(block))
    assert Progress(SEEDS, tmp_path, "code").total().seeds == BLOCK


def test_a_line_that_was_not_written_to_its_end_is_done_again(tmp_path: Path) -> None:
    """A machine that loses its power in the middle of a write costs one block, not the file."""
    first, second, _ = blocks(SEEDS)
    progress = Progress(SEEDS, tmp_path, "code")
    progress.done(first, tally(first))
    progress.done(second, tally(second))
    assert progress.path is not None
    progress.path.write_bytes(progress.path.read_bytes()[:-5])
    again = Progress(SEEDS, tmp_path, "code")
    assert next(again.left()) == second
    again.done(second, tally(second))
    assert Progress(SEEDS, tmp_path, "code").total().seeds == 2 * BLOCK


def test_seeds_that_other_code_or_another_range_has_passed_do_not_count(tmp_path: Path) -> None:
    block = next(blocks(SEEDS))
    Progress(SEEDS, tmp_path, "code").done(block, tally(block))
    assert Progress(SEEDS, tmp_path, "other").total().seeds == 0
    assert Progress(range(30, 60), tmp_path, "code").total().seeds == 0


def test_the_code_is_that_of_every_module_of_ours() -> None:
    assert code_digest() == code_digest()
    assert len(code_digest()) == 12


def test_a_tally_comes_back_from_its_json() -> None:
    one = tally(range(3, 9))
    assert tally_from_json(one.to_json()) == one
    with pytest.raises(ValueError, match="no tally"):
        tally_from_json('{"seeds": 1}')


@pytest.mark.parametrize("text", ["", "0", "5:5", "7:3", "a:b", "-3", "1:2:3"])
def test_a_range_without_seeds_is_refused_by_name(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"--seeds={text}"])
    assert ended.value.code == 2
    assert f"{text!r} names no seeds; give N for seeds 0 to N-1, or A:B with A < B" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_no_number_of_processes_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seeds", "5", f"--jobs={text}"])
    assert f"{text!r} is no number of processes; give 1 or more" in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """With processes of its own, as `make sim` runs it."""
    arguments = ["--seeds", f"{4 * BLOCK}", "--progress", str(tmp_path), "--jobs", "2"]
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    _wait_for_a_line(tmp_path)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to every process of the command
    out, err = child.communicate(timeout=60)
    assert child.returncode == INTERRUPTED, err
    assert "the same command goes on from here" in err
    assert "Traceback" not in out + err
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "seeds are done already" in second.stderr
    assert f"\n{4 * BLOCK} seeds, " in second.stdout
    assert second.stdout.endswith("every promise was kept\n")


def test_a_killed_process_ends_the_run_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "run_blocks", _killed_after_one)
    assert main(["--seeds", f"{3 * BLOCK}", "--progress", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert f"a process was killed, from outside or for want of memory, after {BLOCK} of {3 * BLOCK} seeds" in err
    assert "the same command goes on from here" in err


def _killed_after_one(left: Iterator[range], _jobs: int) -> Iterator[tuple[range, Tally]]:
    block = next(left)
    yield block, tally(block)
    raise BrokenProcessPool


def _wait_for_a_line(folder: Path) -> None:
    until_s = time.monotonic() + 60.0
    while not any(path.stat().st_size for path in folder.glob("*.jsonl")):
        assert time.monotonic() < until_s
        time.sleep(0.02)
