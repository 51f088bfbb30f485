"""The page about the time of one update is what its program makes of the committed results."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.update_time import chart, page
from bench.update_time.results import PROCESSES, Results, load, save
from bench.update_time.samples import HERTZ, KINDS, counted

PERF = """\
          python   7f6095efb65a _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)
          python   7f6095efb65b _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)
          python   7f1c5189c51a [unknown] (/usr/lib/x86_64-linux-gnu/libcrypto.so.3)
          python   7ffb9c2abca4 __memmove_avx512_unaligned_erms (/usr/lib/x86_64-linux-gnu/libc.so.6)
          python   7ffb9c2abca5 FLOAT_add_AVX512 (/x/numpy/_core/_multiarray_umath.cpython-311.so)
     rdk:broker1   7ffb9c2abca6 rd_crc32c (/x/confluent_kafka.libs/librdkafka-0cb94173.so.1)
     rdk:broker1 ffffffff81c0abcd _copy_to_iter ([kernel.kallsyms])
C2 CompilerThre   7f00deadbeef PhaseIdealLoop::build_and_optimize() (/x/server/libjvm.so)
data-plane-kafk   7f00deadbee0 [unknown] (/tmp/perf-123.map)
"""


@pytest.fixture(scope="module")
def results() -> Results:
    """Read the committed results."""
    return load()


def test_the_page_is_what_the_results_make_of_it(results: Results) -> None:
    """After new results: python -m bench.update_time."""
    text = page.PAGE.read_text()
    assert page.written(text, results) == text
    changed = text.replace("| worker | ", "| worker | 9", 1)
    assert changed != text
    assert page.written(changed, results) == text


def test_every_table_stands_on_the_page(results: Results) -> None:
    """Without results there is no chart."""
    named = [found["name"] for found in page.MARKER.finditer(page.PAGE.read_text())]
    assert sorted(named) == sorted(page.tables(results))


def test_the_drawing_is_what_the_results_make_of_it(results: Results) -> None:
    """And it is sound XML, with a dot a record."""
    text = chart.DRAWING.read_text()
    assert chart.drawn(results) == text
    dots = list(ET.fromstring(text).iter("{http://www.w3.org/2000/svg}circle"))  # noqa: S314 - ours
    assert len(dots) == sum(len(times) for times in results.log_ms.values())


def test_bars_and_dots_are_drawn_to_one_scale(results: Results) -> None:
    """Both are milliseconds and stand below one another: who reads a bar at the axis above reads the right number."""
    drawing = ET.fromstring(chart.drawn(results))  # noqa: S314 - ours
    dots = [float(dot.get("cx", "0")) for dot in drawing.iter("{http://www.w3.org/2000/svg}circle")]
    of_a_ms = (max(dots) - chart.LEFT) / max(max(times) for times in results.log_ms.values())
    bars = [bar for bar in drawing.iter("{http://www.w3.org/2000/svg}rect") if bar.get("height") == "24"]
    longest = max(float(bar.get("x", "0")) + float(bar.get("width", "0")) for bar in bars)
    most_ms = max(sum(found.values()) for found in results.computing_ms.values())
    assert longest == pytest.approx(chart.LEFT + of_a_ms * most_ms, abs=0.5)


def test_the_results_are_of_whole_updates(results: Results) -> None:
    """Every shard went there and came back, after what it follows from."""
    log = results.log_ms
    assert len(log["Delta"]) == len(log["Parameters"]) == results.shards
    assert [len(log[kind]) for kind in ("Contribution", "Receipt", "Version")] == [1, 1, 1]
    assert max(log["Delta"]) <= log["Receipt"][0] <= log["Version"][0] <= min(log["Parameters"])
    assert set(results.computing_ms) == set(PROCESSES)
    assert max(log["Parameters"]) < results.update_ms


def test_samples_are_sorted_by_what_they_fall_into() -> None:
    """In milliseconds; of a JVM its compilers apart."""
    one = 1000 / HERTZ
    lines = PERF.splitlines()
    assert counted(lines[:7], is_jvm=False) == {
        "hashing": one,
        "copying": one,
        "numbers": one,
        "Python": 2 * one,
        "Kafka client": one,
        "kernel": one,
    }
    assert counted(lines[6:], is_jvm=True) == {"JVM": one, "JVM's compiler": one, "kernel": one}
    assert set(chart.COLOURS) == set(KINDS)


def test_results_can_be_written_and_read(results: Results, tmp_path: Path) -> None:
    """As they are committed: what is read and written again is the same file."""
    file = tmp_path / "results.json"
    save(results, file)
    assert load(file) == results
    save(replace(results, raw_ms=1 / 3), file)
    assert load(file).raw_ms == 0.33
