"""Logging without dependencies.

Lines go to stderr, so that stdout stays free for results: text by default, one JSON object a line on request. Once a
process has a role in a run, every line names run, role and member.
"""

import json
import logging
import sys
import time
from collections import Counter
from typing import TextIO

from driftline.errors import UsageError

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_ROOT = "driftline"
# What every LogRecord has; any further attribute came through ``extra=`` and belongs into the line.
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_counts = Counter[str]()
"""Warnings and errors so far; the handler that adds to it holds its own lock."""
_identity: dict[str, str] = {}


def identify(*, run: str, role: str, member: str) -> None:
    """Set the role of this process; every line of its log has these three from now on."""
    _identity.update(run=run, role=role, member=member)


def forget_identity() -> None:
    """Undo `identify`, in a process that outlives its role."""
    _identity.clear()


def counted_lines() -> list[tuple[str, int]]:
    """Return how many warnings and errors were logged so far, by level."""
    return [(level, _counts[level]) for level in ("warning", "error")]


def configure_logging(level: str = "info", *, log_format: str = "text", stream: TextIO | None = None) -> None:
    """Send driftline's log to ``stream``, stderr by default. A later call replaces an earlier one.

    Changes only the logger ``driftline``: an application that uses driftline as a library keeps its own logging.

    Raises:
        UsageError: no such level or format; names it and the possible ones.
    """
    if log_format not in FORMATS:
        raise UsageError(f"log format {log_format!r} does not exist: choose one of {', '.join(FORMATS)}")
    if level not in LEVELS:
        raise UsageError(f"log level {level!r} does not exist: choose one of {', '.join(LEVELS)}")
    handler = _CountingHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _ForPeople())
    logger = logging.getLogger(_ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


class _CountingHandler(logging.StreamHandler[TextIO]):
    """Counts warnings and errors."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            _counts["error" if record.levelno >= logging.ERROR else "warning"] += 1
        super().emit(record)


class _ForPeople(logging.Formatter):
    """``12:34:56 warning server my-run/server-1 broker.kafka: text name=value``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        where = record.name.removeprefix(f"{_ROOT}.")
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        who = "{role} {run}/{member} ".format(**_identity) if _identity else ""
        line = f"{moment} {record.levelname.lower()} {who}{where}: {record.getMessage()}{extra}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class _JsonLines(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, the role, and any ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            "thread": record.threadName,
            **_identity,
            **_extra(record),
        }
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
