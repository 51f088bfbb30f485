"""The Python interface: what `driftline.NAME` is. It puts settings together; the work is done in the layers below."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn, optim

from driftline.broker.embedded.files import default_home
from driftline.broker.port import Broker
from driftline.config.connection import Reached
from driftline.config.keys import KEYS, SCRIPT
from driftline.config.settings import Settings, texts_of
from driftline.errors import ConfigError, RunRefused, UsageError
from driftline.launch.progress_line import ProgressLine
from driftline.launch.training import read_request
from driftline.launch.training import train as train_here
from driftline.ledger.entering.reading import check_run_exists
from driftline.observe.versions import Version, follow_run, load_newest, load_one
from driftline.replay.verify.reading import verify_run
from driftline.replay.verify.report import Report
from driftline.runs.naming import read_run_url
from driftline.runtime.outcome import check_finish
from driftline.schemas.effects import Finish
from driftline.telemetry import configure_logging, forget_identity
from driftline.training.model.wrappers import state_for
from driftline.training.optimizer.optimizer import ScriptOptimizer
from driftline.training.optimizer.worker_names import VARIABLE


class Optimizer(ScriptOptimizer):
    """Make a script a worker of a run, by wrapping its torch optimizer.

    ``driftline.Optimizer(torch.optim.AdamW(model.parameters()), model, "kafka:///my-run")``

    The constructor waits for the run to start and loads its newest version into the model. The rest of the script stays
    as with the torch optimizer: ``backward()``, ``step()``, ``zero_grad()``. docs/optimizer.md lists what else works.

    Args:
        torch_optimizer: a new optimizer over parameters of ``model``. It is read once and never stepped.
        model: the whole model. Parameters outside the optimizer stay as in version 0.
        url: address of the run, ``kafka://host:9092/my-run``. ``kafka:///my-run`` takes Kafka's address from the
            configuration, or uses the broker that ``driftline broker start`` has started here.
        worker: name of this worker. Default: ``$DRIFTLINE_WORKER``, or the name of the machine with a number.
        timeout: longest wait for other processes, in seconds, above 0.
        metrics: where Prometheus reads metrics: ``HOST:PORT``, or a port on this machine only; 0 is any free port.
            Default: that of the configuration, or nowhere.
        kafka: properties of the Kafka clients, with the names of librdkafka.
        config: a TOML file. Default: ``$DRIFTLINE_CONFIG``, or ``driftline.toml`` in the working directory.
        samples: number of samples of the script's data, if it reads them by a `Sampler`. The ledger then leases them,
            and each is used once an epoch. 0 leaves the data to the script.
        batch_size: usual number of samples of one step.
        block: samples that a worker is leased at a time. Default: eight batches.
        broker: used instead of a Kafka, in tests.
        settings: settings of the run, with the names of the options (``workers``, ``mode``, ``staleness``, ``steps``
            …). Settings that neither they, the environment nor the file give come from the run, if it exists. A new run
            waits for one worker and has no end.

    Raises:
        UsageError: an argument is invalid, or another process uses the name or the port.
        ConfigError: model, optimizer or settings cannot be trained. Lists every problem with its source.
        RunRefused: the run has other settings or another model. Lists the differences.
        WaitTimeout: the run did not start in time. Names the processes that it waited for.
        BrokerError: Kafka does not answer, or refuses the client.
    """

    def __init__(  # noqa: PLR0913 - whatever a script may have to say
        self,
        torch_optimizer: optim.Optimizer,
        model: nn.Module,
        url: str,
        *,
        worker: str | None = None,
        timeout: float = 600.0,
        metrics: str | int | None = None,
        kafka: Mapping[str, str] | None = None,
        config: str | os.PathLike[str] | None = None,
        samples: int = 0,
        batch_size: int = 0,
        block: int = 0,
        broker: Broker | None = None,
        **settings: Any,
    ) -> None:
        be_heard()
        where = read_run_url(url)
        data = {"samples": samples, "batch_size": batch_size, "block": block}
        sizes = {name: size for name, size in data.items() if size or isinstance(size, bool)}
        kafka_given = {"kafka_property": kafka, "bootstrap_servers": where.bootstrap_servers, "metrics": metrics}
        found = _settings(settings | sizes | kafka_given, config)
        found.refuse_unknown(settings, [one.parameter for one in SCRIPT])
        chosen, address = found.run(where.run), found.metrics()
        found.problems.check()
        using = ExitStack()
        try:
            reached = _Given(broker, where.bootstrap_servers or "memory") if broker else _reach(found, using)
            super().__init__(
                torch_optimizer,
                model,
                reached.broker,
                chosen,
                address=f"kafka://{reached.bootstrap_servers}/{where.run}",
                worker=worker or os.environ.get(VARIABLE) or None,
                timeout_s=timeout,
                metrics=address,
                using=using,
            )
        except BaseException:
            using.close()
            raise


@dataclass(frozen=True, slots=True)
class _Given:
    """A broker that a test brings, in the place of a `Reached` one."""

    broker: Broker
    bootstrap_servers: str


def be_heard(level: str = "info") -> None:
    """Send driftline's log to stderr, unless logging has been set up already."""
    if not logging.getLogger("driftline").hasHandlers():
        configure_logging(level)


def _settings(arguments: Mapping[str, Any], config: str | os.PathLike[str] | None) -> Settings:
    file = None if config is None else os.fspath(config)
    return Settings(texts_of(arguments), os.environ, file=file, in_python=True)


def _reach(settings: Settings, using: ExitStack) -> Reached:
    """Return the Kafka that the settings name."""
    connection = settings.connection(default_home())
    settings.problems.check()
    return using.enter_context(connection.running())


def load(
    url: str,
    version: int | None = None,
    *,
    model: nn.Module | None = None,
    timeout: float = 60.0,
    kafka: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
    broker: Broker | None = None,
) -> dict[str, Tensor]:
    """Return the model of a run at one version, for ``model.load_state_dict``. Joins nothing and writes nothing.

    Args:
        url: address of the run, see `Optimizer`.
        version: its number. It must have been published, and still be in the log. Default: the newest.
        model: is loaded with it, also one that is compiled or wrapped for several devices.
        timeout: longest wait for a complete version, in seconds.
        kafka: see `Optimizer`.
        config: see `Optimizer`.
        broker: see `Optimizer`.

    Raises:
        RunRefused: there is no such run or version. Lists those that exist.
        WaitTimeout: no version was complete in time.
        IntegrityError: the log contradicts itself.
        BrokerError: Kafka does not answer, or refuses the client.
    """
    with _opened(url, kafka, config, broker) as (found, run):
        one = load_newest(found, run, timeout) if version is None else load_one(found, run, version)
    if model is not None:
        model.load_state_dict(state_for(model, one.state))
    return one.state


def follow(
    url: str,
    model: nn.Module | None = None,
    *,
    timeout: float = 600.0,
    kafka: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
    broker: Broker | None = None,
) -> Iterator[Version]:
    """Yield the newest version of a run, then each newer one, until the run ends. Joins nothing and writes nothing.

    Args:
        url: address of the run, see `Optimizer`.
        model: loads the parameters of every version before it is yielded, on the calling thread.
        timeout: longest wait for the next version, in seconds.
        kafka: see `Optimizer`.
        config: see `Optimizer`.
        broker: see `Optimizer`.

    Raises:
        RunRefused: there is no such run.
        WaitTimeout: no newer version came in time.
        IntegrityError: the log contradicts itself.
        BrokerError: Kafka does not answer, or refuses the client.
    """
    with _opened(url, kafka, config, broker) as (found, run):
        for one in follow_run(found, run, timeout):
            if model is not None:
                model.load_state_dict(state_for(model, one.state))
            yield one


def verify(
    url: str,
    *,
    expect: str = "",
    kafka: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
    broker: Broker | None = None,
) -> Report:
    """Prove a run as ``driftline verify`` does. `Report.first_bad` is None if the run is sound.

    Args:
        url: address of the run, see `Optimizer`.
        expect: the first hex digits of a head that was kept elsewhere.
        kafka: see `Optimizer`.
        config: see `Optimizer`.
        broker: see `Optimizer`.

    Raises:
        RunRefused: there is no such run.
        BrokerError: Kafka does not answer, or refuses the client.
    """
    with _opened(url, kafka, config, broker) as (found, run):
        check_run_exists(found, run)
        return verify_run(found, run, expect=expect)


def train(task: str, **options: Any) -> dict[str, Any]:
    """Train a task on this machine, as ``driftline train`` does, in processes of its own.

    Args:
        task: a built-in name, ``package.module:Attribute`` or ``file.py:Attribute``.
        options: options of ``driftline train``, with ``_`` for ``-`` (``workers=2``, ``steps=100`` …). Repeatable
            options take a mapping: ``set={"learning_rate": 0.01}``.

    Returns:
        The state of the run, as ``driftline train --json`` prints it.

    Raises:
        RunRefused: an option or the task is invalid, or the run exists with other settings.
        IntegrityError: the log is not what its digests say.
        RunError: the run failed.
    """
    be_heard("warning")
    known = {one.parameter: one for one in KEYS}
    given = {name: value for name, value in options.items() if name in known}
    settings = _settings({"task": task} | given, options.get("config"))
    settings.refuse_unknown(options, [*known, "home", "config", "chaos"])
    line = ProgressLine()
    try:
        request = read_request(settings, Path(options.get("home") or default_home()), options.get("chaos"))
    except (ConfigError, UsageError) as error:
        raise RunRefused(str(error)) from error
    try:
        outcome = train_here(request, line.show, line.say)
    finally:
        line.clear()
        forget_identity()
    ended = outcome.status.ended
    if ended is not None:
        check_finish(Finish(ended.reason, ended.failure))
    return outcome.to_dict()


@contextmanager
def _opened(
    url: str,
    kafka: Mapping[str, str] | None,
    config: str | os.PathLike[str] | None,
    broker: Broker | None,
) -> Iterator[tuple[Broker, str]]:
    where = read_run_url(url)
    with ExitStack() as using:
        if broker is None:
            given = {"kafka_property": kafka, "bootstrap_servers": where.bootstrap_servers}
            broker = _reach(_settings(given, config), using).broker
        yield broker, where.run
