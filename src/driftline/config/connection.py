"""Which Kafka to use: the one at the given addresses, or the one of ``$DRIFTLINE_HOME``."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.kafka.hints import unsafe
from driftline.config.choosing import Choice, name_of
from driftline.config.keys import key
from driftline.config.problems import Problems
from driftline.config.sections import KafkaSection
from driftline.errors import BrokerUnreachable, ConfigError, UsageError

log = logging.getLogger(__name__)

PROPERTIES = key("kafka.properties")
_ANY_ADDRESS = "127.0.0.1:9"
"""Takes the place of the address of a broker that is not started yet, while other settings are checked."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A Kafka that answers, and its address."""

    broker: KafkaBroker
    bootstrap_servers: str


@dataclass(frozen=True, slots=True, repr=False)
class Connection:
    """How to find Kafka.

    Attributes:
        home: ``$DRIFTLINE_HOME``; its broker is used when no address is given.
        bootstrap_servers: ``host:port``, several separated by commas, or None.
        properties: passed on to librdkafka; may hold secrets, so this object shows none of it.
        timeout_s: how long Kafka may take to answer at first.
        nodes: of the broker of a new broker of ``home``; None keeps the number of one that exists.
        group_protocol: how members take part in groups, see ``KafkaSettings``.
    """

    home: Path
    bootstrap_servers: str | None = None
    properties: Mapping[str, str] | None = None
    timeout_s: float = 10.0
    nodes: int | None = None
    group_protocol: str = "auto"

    def settings(self, bootstrap_servers: str) -> KafkaSettings:
        """Return the settings of Kafka clients.

        Raises:
            ConfigError: lists everything wrong with the address and the properties.
        """
        properties = dict(self.properties or {})
        return KafkaSettings(bootstrap_servers, properties=properties, group_protocol=self.group_protocol)

    def reach(self, bootstrap_servers: str) -> Reached:
        """Return the Kafka at these addresses if it answers.

        Raises:
            BrokerUnreachable: it does not, within ``timeout_s``; names the addresses, and the broker of this home if
                that is at another one.
        """
        settings = self.settings(bootstrap_servers)
        warning = unsafe(settings.properties)
        if warning:
            log.warning("%s", warning)
        broker = KafkaBroker(settings)
        try:
            broker.check(self.timeout_s)
        except BrokerUnreachable as error:
            raise BrokerUnreachable(f"{error}{self._nearby(bootstrap_servers)}") from None
        return Reached(broker, bootstrap_servers)

    def _nearby(self, asked: str) -> str:
        """Return a hint at the broker of this home, which has a port of its own, if another address was asked."""
        own = self._embedded(_quiet).status()
        if not own.running or own.bootstrap_servers == asked:
            return ""
        return (
            f". The broker of {self.home} runs, but at {own.bootstrap_servers}: to use it leave the address out, in a "
            f"script kafka:///NAME"
        )

    def check_known(self) -> None:
        """Return if the address of a running Kafka is known, without asking it.

        Raises:
            UsageError: no address is given and the broker of this home does not run.
        """
        if self.bootstrap_servers is not None:
            return
        status = self._embedded(_quiet).status()
        if status.running:
            return
        start = f"driftline broker start --home {self.home}"
        if status.bootstrap_servers is None:  # as in another directory than the one that it was started in
            home = self.home.absolute()
            problem = (
                f"{home} has no broker yet; start one with: {start}, or name the --home (DRIFTLINE_HOME) of another"
            )
        else:
            problem = f"the broker of {self.home} is not running; start it with: {start}"
        raise UsageError(f"no Kafka: no --bootstrap-servers are given (nor DRIFTLINE_BOOTSTRAP_SERVERS), and {problem}")

    @contextmanager
    def running(self) -> Iterator[Reached]:
        """Use a Kafka that runs already.

        Raises:
            UsageError: no address is given and the broker of this home does not run.
        """
        self.check_known()
        with self.started(_quiet) as reached:
            yield reached

    @contextmanager
    def readable(self, report: Callable[[str], None]) -> Iterator[Reached]:
        """Use a Kafka that runs, or start the broker of this home for as long as it is read.

        Raises:
            UsageError: no address is given and this home never had a broker, so there is nothing to read.
        """
        if self.bootstrap_servers is None:
            status = self._embedded(report).status()
            if status.bootstrap_servers is None:
                raise UsageError(
                    f"there are no runs in {self.home}: it has no broker yet. `driftline train digits` makes a run, "
                    f"--bootstrap-servers names another Kafka, --home another folder"
                )
            if not status.running:
                report(
                    f"Kafka runs for this command only; to keep it running: driftline broker start --home {self.home}"
                )
        with self.started(report) as reached:
            yield reached

    @contextmanager
    def started(self, report: Callable[[str], None]) -> Iterator[Reached]:
        """Use a Kafka that runs, or start the broker of this home, and stop it again if no other process uses it."""
        if self.bootstrap_servers is not None:
            yield self.reach(self.bootstrap_servers)
            return
        embedded = self._embedded(report)
        embedded.start()
        try:
            yield self.reach(embedded.bootstrap_servers)
        finally:
            embedded.release()

    def _embedded(self, report: Callable[[str], None]) -> EmbeddedBroker:
        return EmbeddedBroker(self.home, nodes=self.nodes, report=report)


def _quiet(_line: str) -> None:
    """Say nothing."""


def read_connection(section: KafkaSection, choice: Choice, home: Path, problems: Problems) -> Connection:
    """Return the connection that a section asks for, checked as far as that needs no connection."""
    connection = Connection(
        home,
        section.bootstrap_servers,
        section.properties,
        section.connect_timeout,
        group_protocol=section.group_protocol,
    )
    try:
        connection.settings(_ANY_ADDRESS if section.bootstrap_servers is None else section.bootstrap_servers)
    except ConfigError as error:
        for problem in error.problems:
            problems.add(f"{_source(problem, choice)}{problem}")
    return connection


def _source(problem: str, choice: Choice) -> str:
    """Return the source of the property that a problem is about, if that is not an argument."""
    argument = name_of(PROPERTIES, in_python=choice.in_python)
    for one in choice.pairs(PROPERTIES):
        name = re.escape(one.text.partition("=")[0].strip())
        if one.source != argument and re.match(rf"Kafka property {name}(?![\w.-])", problem):
            return f"{one.source}: "
    return ""
