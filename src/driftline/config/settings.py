"""What one command or one call was given, by arguments, environment and file: read and checked piece by piece."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from driftline.broker.embedded.cluster import check_number
from driftline.broker.topics import check_run_name
from driftline.config.address import read_address, read_first_address
from driftline.config.choosing import NO_FILE, FileValues, choose, misspelt_variables
from driftline.config.connection import Connection, read_connection
from driftline.config.file import read_file
from driftline.config.keys import CONFIG_VARIABLE, DEFAULT_FILE, METRICS, RUN_NAME, SCRIPT, SECTIONS, key, keys_in
from driftline.config.problems import Problems, hint
from driftline.config.run_settings import RunSettings
from driftline.config.sections import KafkaSection, RoleSection, TaskSection, TrainSection
from driftline.config.values import read_pairs, read_value
from driftline.errors import ConfigError, UsageError
from driftline.schemas.run.consistency import Consistency, inferred_bounds
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule
from driftline.schemas.run.setting import Key, Kind
from driftline.telemetry.exporting import Address

DEFAULT_STEPS = 200
_MODE, _STEPS, _EPOCHS = key("run.mode"), key("run.steps"), key("run.epochs")

SectionT = TypeVar("SectionT", KafkaSection, TaskSection, TrainSection, RoleSection)


class Settings:
    """The settings of one command or one call.

    Attributes:
        file: that was read, if any.
        choice: every setting as text, with its source.
        problems: everything that is wrong; its `check` raises it.
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        file: str | Path | None = None,
        in_python: bool = False,
    ) -> None:
        """Put the sources together.

        Args:
            arguments: keyword argument → text, or a sequence of texts for pairs.
            environment: ``os.environ``, or nothing.
            file: the file that was named; see `find_file`.
            in_python: whether arguments came from Python, so that problems name them as Python does.
        """
        self.problems = Problems()
        self.file = find_file(file, environment)
        misspelt_variables(environment, self.problems)
        values = NO_FILE if self.file is None else _read(self.file, self.problems)
        self.choice = choose(arguments, environment, values, in_python=in_python)

    def refuse_unknown(self, names: Iterable[str], known: Collection[str]) -> None:
        """Add a problem for each argument that no setting has."""
        for name in sorted(set(names) - set(known)):
            self.problems.add(f"{name}: there is no such setting; {hint(name, known)}")

    def name(self, one: Key, argument: str) -> str:
        """Return a name without which the command has nothing to do; ``argument`` is how it is typed."""
        text = self.choice.text(one)
        if not text:
            self.problems.add(f"{argument} is missing: give it, or set {one.variable}, or {one.path} in a file")
        return text or ""

    def run_name(self, argument: str) -> str:
        """Return the name of the run, checked; ``argument`` is how it is typed."""
        name = self.name(RUN_NAME, argument)
        return self.problems.attempt(lambda: check_run_name(name) if name else "", "")

    def value(self, one: Key) -> Any:
        """Return the value of a setting, or None if it has none or is wrong; then ``problems`` has grown."""
        if one.kind is Kind.PAIRS:
            return read_pairs(self.choice.pairs(one), self.problems, secret=one.section == "kafka")
        text = self.choice.text(one)
        try:
            return None if text is None else read_value(one, text)
        except ValueError as error:
            self.problems.add(f"{self.choice.name(one)}: {error}")
            return None

    def section(self, kind: type[SectionT]) -> SectionT:
        """Return the settings of a section other than ``run``; wrong values are the default."""
        name = next(section for section, (one, _) in SECTIONS.items() if one is kind)
        values = {one.at[0]: self.value(one) for one in keys_in(name)}
        return kind(**{field: value for field, value in values.items() if value is not None})

    def run(self, name: str) -> RunSettings:
        """Return the settings of a run, or any others if ``problems`` has grown."""
        before = len(self.problems.found)
        self.problems.attempt(lambda: check_run_name(name), "")
        parts: dict[str, dict[str, Any]] = {"consistency": {}, "schedule": {}, "local": {}, "": {}}
        for one in SCRIPT:
            value = self.value(one)
            if value is not None:
                parts[one.at[0] if len(one.at) > 1 else ""][one.at[-1]] = value
        values = self._length(parts[""])
        if len(self.problems.found) > before:
            return RunSettings(run=name, steps=DEFAULT_STEPS)
        bounds = parts["consistency"]
        given = {field: bounds[field] for field in bounds if field != "mode" or self.choice.is_given(_MODE)}
        settings = RunSettings(
            run=name,
            consistency=Consistency(**(bounds | inferred_bounds(given) | given)),
            schedule=Schedule(**parts["schedule"]),
            local=LocalWork(**parts["local"]),
            chosen=frozenset(one.parameter for one in SCRIPT if self.choice.is_given(one)),
            **values,
        )
        for field, why in settings.contradictions():
            at = next(one for one in SCRIPT if ".".join(one.at) == field)
            self.problems.add(f"{self.choice.name(at)}: {why}")
        return settings

    def _length(self, values: dict[str, Any]) -> dict[str, Any]:
        if values.keys() >= {"steps", "epochs"}:
            names = f"{self.choice.name(_STEPS)} and {self.choice.name(_EPOCHS)}"
            self.problems.add(f"{names}: both say how long to train; give one of them")
            return values
        return values if "epochs" in values else {"steps": DEFAULT_STEPS, **values}

    def connection(self, home: Path) -> Connection:
        """Return which Kafka to use, checked as far as possible without connecting."""
        section = self.section(KafkaSection)
        return read_connection(section, self.choice, home, self.problems)

    def broker_nodes(self) -> int | None:
        """Return how many nodes the broker of the home is to have; None for as many as it has."""
        one = key("train.broker_nodes")
        number: int | None = self.value(one)
        if number is not None and self.choice.text(key("kafka.bootstrap_servers")) is not None:
            self.problems.add(f"{self.choice.name(one)}: is for the broker of --home; remove it or --bootstrap-servers")
        name = self.choice.name(one)
        try:
            return None if number is None else check_number(number)
        except UsageError as error:
            self.problems.add(f"{name}: {error}")
            return None

    def metrics(self) -> Address | None:
        """Return where metrics are served; None if they are not."""
        return read_address(self.choice.name(METRICS), self.choice.text(METRICS), self.problems)

    def first_metrics(self, count: int) -> Address | None:
        """Return where the first of ``count`` processes serves metrics; None if none does."""
        return read_first_address(self.choice.name(METRICS), self.choice.text(METRICS), count, self.problems)


def load_run_settings(
    run: str, arguments: Mapping[str, object], *, environment: Mapping[str, str], file: str | Path | None = None
) -> RunSettings:
    """Return the settings of a run, for callers in Python.

    Args:
        run: its name.
        arguments: what the caller chose, by keyword argument (``mode``, ``staleness`` …); None leaves one out.
        environment: ``os.environ``, or nothing.
        file: to be read for what neither gives; see `find_file`.

    Raises:
        ConfigError: lists everything that is wrong, each with its source.
    """
    settings = Settings(texts_of(arguments), environment, file=file, in_python=True)
    settings.refuse_unknown(arguments, [one.parameter for one in SCRIPT])
    found = settings.run(run)
    settings.problems.check()
    return found


def texts_of(arguments: Mapping[str, object]) -> dict[str, str | list[str]]:
    """Return keyword arguments as text, and mappings as ``name=value``; None leaves one out."""
    return {
        name: [f"{key}={one}" for key, one in value.items()] if isinstance(value, Mapping) else str(value)
        for name, value in arguments.items()
        if value is not None
    }


def find_file(named: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file that counts: the one that is named, or `DEFAULT_FILE` of the working directory if it is there."""
    named = named or environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None


def _read(file: Path, problems: Problems) -> FileValues:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        problems.add(f"configuration file {file}: {error.strerror or error}; --config names another")
        return NO_FILE
    except UnicodeDecodeError as error:
        raise ConfigError([f"configuration file {file}: is no UTF-8 text (byte {error.start})"]) from None
    return read_file(str(file), text, problems)
