"""What every test may use.

Tests marked ``kafka`` run against one real Kafka, started once for the whole test command. To use one that runs already
(quicker while developing), put its address into ``DRIFTLINE_TEST_BOOTSTRAP``, for example ``localhost:9092``; topics
get unique names, and those made by way of ``unique_name`` are deleted at the end.
"""

import itertools
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.testing import running_broker
from tests.simulation.seeds.many import FilesThenSeeds, counted

_SESSION = f"t{uuid.uuid4().hex[:8]}"
_COUNT = itertools.count()


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    """A command that is called in a test sets up the process's logging, and the process is every test's."""
    logger = logging.getLogger("driftline")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a real Kafka."""
    given = os.environ.get("DRIFTLINE_TEST_BOOTSTRAP")
    if given:
        yield given
        _delete_our_topics(given)
    else:
        with running_broker(_shared_home(tmp_path_factory)) as bootstrap_servers:
            yield bootstrap_servers


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Makes names that no other test uses; each may be a run, a topic, a group or a member."""
    return lambda label: f"{_SESSION}-{next(_COUNT)}-{label}"


def _shared_home(factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of a parallel test command, which so share one broker."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kafka"


def _delete_our_topics(bootstrap_servers: str) -> None:
    admin = KafkaBroker(KafkaSettings(bootstrap_servers)).admin()
    admin.delete([name for name in admin.topics() if _SESSION in name])
    admin.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was simulated, and what happened there."""
    total = counted(terminalreporter.getreports("passed"))
    if total.seeds:
        terminalreporter.section("simulated")
        terminalreporter.write_line("\n".join(total.lines()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesThenSeeds | None:
    """Share the tests out by files, as `--dist loadfile` does, but the seeds by blocks."""
    return FilesThenSeeds(config, log) if config.getvalue("dist") == "loadfile" else None
