"""Logging: lines for people and for machines, and the count of warnings and errors."""

import io
import json
import logging
import threading

import pytest

from driftline.errors import UsageError
from driftline.telemetry import configure_logging, counted_lines, forget_identity, identify

_log = logging.getLogger("driftline.some.part")


def test_json_lines_hold_the_text_the_extras_and_the_exception() -> None:
    stream = io.StringIO()
    configure_logging("info", log_format="json", stream=stream)
    _log.info("read %d records", 3, extra={"partition": 7})
    _log.error("failed", exc_info=ValueError("no\nway"))
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["message"], first["partition"], first["level"]) == ("read 3 records", 7, "info")
    assert first["time"].endswith("Z")
    assert "ValueError: no\nway" in second["exception"]


def test_lines_for_people_name_level_and_part() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    _log.warning("slow", extra={"lag_records": 5})
    assert stream.getvalue().endswith(" warning some.part: slow lag_records=5\n")


def test_lower_levels_are_dropped_and_configuring_again_replaces() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("debug", stream=first)
    configure_logging("warning", stream=second)
    _log.info("dropped")
    _log.error("kept")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'loud'.*debug, info, warning, error"):
        configure_logging("loud")


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'xml'.*text, json"):
        configure_logging(log_format="xml")


def test_every_line_names_run_role_and_member_in_both_formats() -> None:
    """Also lines of other parts of driftline, for as long as the process has its role."""
    people, machines = io.StringIO(), io.StringIO()
    identify(run="my-run", role="server", member="server-1")
    try:
        configure_logging(stream=people)
        _log.warning("slow")
        configure_logging(log_format="json", stream=machines)
        logging.getLogger("driftline.elsewhere").info("fast", extra={"version": 3})
    finally:
        forget_identity()
    _log.info("over")
    assert people.getvalue().endswith(" warning server my-run/server-1 some.part: slow\n")
    first, second = (json.loads(line) for line in machines.getvalue().splitlines())
    assert (first["run"], first["role"], first["member"], first["version"]) == ("my-run", "server", "server-1", 3)
    assert "member" not in second


def test_warnings_and_errors_are_counted_information_is_not() -> None:
    configure_logging(stream=io.StringIO())
    before = dict(counted_lines())
    _log.info("fine")
    _log.warning("odd")
    _log.error("bad")
    _log.critical("worse")
    after = dict(counted_lines())
    assert {level: after[level] - before[level] for level in after} == {"warning": 1, "error": 2}


def test_lines_of_many_threads_are_all_counted() -> None:
    configure_logging(stream=io.StringIO())
    before = dict(counted_lines())

    def work() -> None:
        for _ in range(250):
            _log.warning("odd")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(counted_lines())["warning"] - before["warning"] == 1000
