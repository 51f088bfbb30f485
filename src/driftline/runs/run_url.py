"""A run by its address: ``kafka://host:9092/my-run``."""

from dataclasses import dataclass

from driftline.broker.topics import check_run_name
from driftline.errors import UsageError

SCHEME = "kafka://"
_EXAMPLE = "kafka://localhost:9092/my-run"


@dataclass(frozen=True, slots=True)
class RunUrl:
    """Where a run is.

    Attributes:
        bootstrap_servers: ``host:port``, several separated by commas; None leaves them to the configuration.
        run: the run's name.
    """

    bootstrap_servers: str | None
    run: str


def read_run_url(url: str) -> RunUrl:
    """Take a run's address apart; ``kafka:///my-run`` names no Kafka.

    Raises:
        UsageError: it is no such address, or its last part cannot be the name of a run.
    """
    rest = url[len(SCHEME) :] if isinstance(url, str) and url.startswith(SCHEME) else None
    if rest is None:
        raise UsageError(f"run address {url!r} does not begin with {SCHEME}; an example is {_EXAMPLE}")
    if "@" in rest.partition("/")[0]:
        # The value is not repeated: whatever stands before an @ may be a password.
        raise UsageError(
            "the run's address holds an @: names and passwords do not belong into it, but into the environment "
            "variable DRIFTLINE_KAFKA_PROPERTIES (sasl.username=…, sasl.password=…), one a line"
        )
    servers, slash, run = rest.partition("/")
    if not slash or not run:
        raise UsageError(f"run address {url!r} names no run: write {SCHEME}{servers or 'host:9092'}/NAME")
    return RunUrl(servers or None, check_run_name(run.removesuffix("/")))
