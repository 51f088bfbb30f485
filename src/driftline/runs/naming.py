"""Names of runs and of their members, and addresses of runs such as ``kafka://host:9092/my-run``."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count, islice

from driftline.broker.port import Broker
from driftline.broker.topics import check_run_name
from driftline.errors import UsageError
from driftline.ledger.entering.reading import run_names

SCHEME = "kafka://"
_EXAMPLE = "kafka://localhost:9092/my-run"


def default_run_name(task: str) -> str:
    """Return a legal run name for a task as the command line names it: a built-in task, or the attribute's name."""
    name = task.rpartition(":")[2].rpartition(".")[2].lower()
    legal = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name).strip("-")
    return legal[:64] or "run"


def unused_run_name(broker: Broker, base: str, reserved: Collection[str] = ()) -> str:
    """Return the first of ``base``, ``base-2``, ``base-3`` … that is neither a run nor reserved."""
    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(_without(names, {*run_names(broker), *reserved}))


def unused_names(role: str, number: int, taken: Collection[str]) -> tuple[str, ...]:
    """Return the first ``number`` of ``role-1``, ``role-2`` … that are not taken."""
    return tuple(islice(_without((f"{role}-{one}" for one in count(1)), taken), number))


def _without(names: Iterator[str], taken: Collection[str]) -> Iterator[str]:
    return (name for name in names if name not in taken)


@dataclass(frozen=True, slots=True)
class RunUrl:
    """Address of a run.

    Attributes:
        bootstrap_servers: ``host:port``, several separated by commas; None takes them from the configuration.
        run: the run's name.
    """

    bootstrap_servers: str | None
    run: str


def read_run_url(url: str) -> RunUrl:
    """Parse the address of a run; ``kafka:///my-run`` names no Kafka.

    Raises:
        UsageError: it is no such address, or its last part is no legal run name.
    """
    rest = url[len(SCHEME) :] if isinstance(url, str) and url.startswith(SCHEME) else None
    if rest is None:
        raise UsageError(f"run address {url!r} does not begin with {SCHEME}; an example is {_EXAMPLE}")
    if "@" in rest.partition("/")[0]:
        # Do not repeat the value: the part before an @ may be a password.
        raise UsageError(
            "the run's address holds an @: names and passwords do not belong into it, but into the environment "
            "variable DRIFTLINE_KAFKA_PROPERTIES (sasl.username=…, sasl.password=…), one a line"
        )
    servers, slash, run = rest.partition("/")
    if not slash or not run:
        raise UsageError(f"run address {url!r} names no run: write {SCHEME}{servers or 'host:9092'}/NAME")
    return RunUrl(servers or None, check_run_name(run.removesuffix("/")))
