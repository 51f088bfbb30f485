"""Settings from options, environment and file: which one counts, and everything that is wrong with them at once."""

import itertools
import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from driftline.broker.kafka.settings import GROUP_PROTOCOLS
from driftline.cli import main
from driftline.config.choosing import Choice, choose, misspelt_variables
from driftline.config.connection import PROPERTIES, Connection
from driftline.config.file import read_file
from driftline.config.keys import KEYS, RUN, SCRIPT, key
from driftline.config.problems import Problems
from driftline.config.settings import Settings, find_file, load_run_settings
from driftline.errors import ConfigError
from driftline.launch.training import child_environment
from driftline.schemas.run.setting import Key, Kind, choices

ADDRESSES, TIMEOUT, PROTOCOL = key("kafka.bootstrap_servers"), key("kafka.connect_timeout"), key("kafka.group_protocol")
STEPS, SEED = key("run.steps"), key("run.seed")
NOWHERE = "127.0.0.1:9"


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    """Call the command line in this process, without the environment of the test's user."""
    surroundings: dict[str, str | None] = {name: None for name in os.environ if name.startswith("DRIFTLINE_")}
    return CliRunner().invoke(main, words, env={**surroundings, **(env or {})})


def problems_of(text: str) -> list[str]:
    """Return what is wrong with a file."""
    problems = Problems()
    read_file("run.toml", text, problems)
    return problems.found


def settings(text: str, options: dict[str, str] | None = None, env: dict[str, str] | None = None) -> Choice:
    """Choose from a file, options and variables that are all sound."""
    problems = Problems()
    choice = choose(options or {}, env or {}, read_file("run.toml", text, problems))
    problems.check()
    return choice


# -- precedence ------------------------------------------------------------------------------------------------------

SOURCES = ("option", "environment", "file")


@pytest.mark.parametrize("given", [one for n in range(4) for one in itertools.combinations(SOURCES, n)], ids=str)
def test_an_option_beats_the_environment_that_beats_the_file_that_beats_the_default(given: tuple[str, ...]) -> None:
    """For every combination of sources that say something."""
    choice = settings(
        "[run]\nseed = 3" if "file" in given else "",
        {"seed": "1"} if "option" in given else {},
        {"DRIFTLINE_SEED": "2"} if "environment" in given else {},
    )
    first = next((source for source in SOURCES if source in given), "default")
    expected = {
        "option": ("1", "--seed"),
        "environment": ("2", "DRIFTLINE_SEED"),
        "file": ("3", "run.toml:2: run.seed"),
        "default": ("0", "default"),
    }
    assert (choice.text(SEED), choice.source(SEED)) == expected[first]
    assert choice.is_given(SEED) is bool(given)


def test_a_variable_that_is_empty_says_nothing() -> None:
    """As compose files and shells leave them."""
    assert settings("[run]\nsteps = 7", env={"DRIFTLINE_STEPS": ""}).text(STEPS) == "7"


def test_properties_are_merged_name_by_name() -> None:
    """A password in the environment, the rest in the file, one thing tried out on the command line."""
    text = (
        '[kafka.properties]\nsecurity.protocol = "SSL"\n"client.id" = "f"\nlinger.ms = 5\nsocket.nagle.disable = true'
    )
    problems = Problems()
    choice = choose(
        {"kafka_property": ("client.id=o",)},
        {"DRIFTLINE_KAFKA_PROPERTIES": "sasl.password=a=b c\nclient.id=e\n"},
        read_file("run.toml", text, problems),
    )
    assert dict(one.text.split("=", 1) for one in choice.pairs(PROPERTIES)) == {
        "client.id": "o",
        "sasl.password": "a=b c",
        "security.protocol": "SSL",
        "linger.ms": "5",
        "socket.nagle.disable": "true",
    }
    assert not problems.found


def test_addresses_may_be_a_list() -> None:
    """As the properties of other tools have them."""
    assert settings('[kafka]\nbootstrap_servers = ["a:1", "b:2"]').text(ADDRESSES) == "a:1,b:2"


@pytest.mark.parametrize("one", KEYS, ids=lambda one: one.path)
def test_every_setting_can_be_given_in_every_way(one: Key) -> None:
    """By option or argument, variable and file; and the names never collide."""
    assert sum(other.path == one.path for other in KEYS) == 1
    assert sum(other.parameter == one.parameter for other in KEYS) == 1
    assert sum(other.variable == one.variable for other in KEYS) == 1
    value, text = {
        Kind.WHOLE: ("7", "7"),
        Kind.REAL: ("0.25", "0.25"),
        Kind.DURATION: ('"2s"', "2s"),
        Kind.TEXT: ('"word"', "word"),
        Kind.ADDRESSES: ('"h:1"', "h:1"),
        Kind.PAIRS: ('{ a = "word" }', "a=word"),
    }[one.kind]
    arguments = {one.parameter: (text,) if one.kind is Kind.PAIRS else text}
    for choice in (
        choose(arguments, {}),
        choose({}, {one.variable: text}),
        settings(f"[{one.section}]\n{one.name} = {value}"),
    ):
        assert [given.text for given in choice.given[one.parameter]] == [text]


def test_the_protocols_of_the_setting_are_those_of_the_client() -> None:
    """The declaration imports no Kafka client, so it repeats them."""
    assert set(choices(PROTOCOL.annotation)) == set(GROUP_PROTOCOLS)


# -- what is wrong with a file ---------------------------------------------------------------------------------------

WRONG = [
    ("[run]\nstalenes = 2", ["run.toml:2: run.stalenes: there is no such setting; did you mean staleness?"]),
    ("[run]\nservers = 2", ["run.toml:2: run.servers: there is no such setting; it belongs into [train]"]),
    ("[runs]\nsteps = 2", ["run.toml:1: runs: there is no such section; did you mean [run]?"]),
    ("steps = 2", ["run.toml:1: steps: belongs into a section: write it under [run]"]),
    ("run = 'x'", ["run.toml:1: run: is a section; write [run] on a line of its own"]),
    ("[run]\nsteps = '300'", ["run.toml:2: run.steps: '300' is text, not a whole number; write 300, without quotes"]),
    ("[run]\nsteps = 3e2", ["run.toml:2: run.steps: 300.0 is not a whole number"]),
    ("[run]\nsteps = true", ["run.toml:2: run.steps: true is not a whole number"]),
    ("[run]\nmax_age = '1s'", ["run.toml:2: run.max_age: '1s' is not a number"]),
    ("[run]\nmode = 1", ["run.toml:2: run.mode: 1 is not text; write it in quotes"]),
    ("[run]\nmode = ['ssp']", ["run.toml:2: run.mode: a list is not text"]),
    ("[kafka]\nproperties = 'a=b'", ["run.toml:2: kafka.properties: 'a=b' is no table"]),
    ("[kafka.properties]\na.b = [1]", ["run.toml:2: kafka.properties.a.b: a list is neither text nor a number"]),
    # What is no TOML at all, because another language writes it so.
    ("[run]\nmode: ssp", ["run.toml:2: 'mode: ssp' is YAML; TOML writes mode = \"ssp\""]),
    ("run:\n  steps: 3", ["run.toml:1: 'run:' is YAML; TOML writes [run]", "run.toml:2: 'steps: 3' is YAML"]),
    ("[run]\nmode = ssp # two", ['run.toml:2: mode = ssp: text needs quotes; write mode = "ssp"']),
    ("[run]\nstaleness = None", ["run.toml:2: staleness = None: TOML has no such value; leave the line out"]),
    ("[kafka.properties]\nx = yes\ny = False", ["run.toml:2: x = yes: TOML writes true", "run.toml:3: y = False"]),
    ("[run]\nexponent = .5", ["run.toml:2: exponent = .5: a decimal point needs digits on both sides"]),
    ("[run]\nsteps = ", ["run.toml:2: steps has no value"]),
    ("[run]\nsteps = 3\nsteps = 4", ["run.toml:3: cannot overwrite a value"]),
    ('[run]\nname = "x\n', ["run.toml:2: "]),
]


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=[text for text, _ in WRONG])
def test_a_wrong_file_is_answered_with_line_and_way_out(text: str, expected: list[str]) -> None:
    """One line a problem, all of them."""
    found = problems_of(text)
    assert len(found) == len(expected)
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith(start)


def test_values_out_of_range_are_named_where_they_were_given(tmp_path: Path) -> None:
    """Line of the file, variable or option; all at once."""
    file = tmp_path / "run.toml"
    file.write_text("[run]\nworkers = 0\nseed = -1\n\n[kafka]\nconnect_timeout = 0.0")
    found = Settings({"partitions": "x"}, {"DRIFTLINE_STEPS": "1_000"}, file=str(file))
    assert found.choice.source(STEPS) == "DRIFTLINE_STEPS"
    found.run("r")
    found.connection(tmp_path)
    assert sorted(problem.split(" ")[0] for problem in found.problems.found) == sorted(
        [f"{file}:2:", f"{file}:3:", f"{file}:6:", "DRIFTLINE_STEPS:", "--partitions:"]
    )
    assert f"{file}:2: run.workers: zero workers compute nothing: give a whole number" in str(found.problems.found)


def test_a_wrong_property_is_named_with_its_line_and_without_its_value(tmp_path: Path) -> None:
    """Through the command line, as a person would meet it."""
    file = tmp_path / "run.toml"
    file.write_text('[kafka.properties]\n"sasl.password" = "hunter2"\nlinger.mss = 1\nacks = 1\n')
    done = run("server", "r", "--config", str(file), "--bootstrap-servers", NOWHERE)
    assert done.exit_code == 2
    assert f"{file}:3: kafka.properties: Kafka property linger.mss: there is no such property" in done.stderr
    assert f"{file}:4: kafka.properties: Kafka property acks=1: remove it" in done.stderr
    assert "hunter2" not in done.output


STALENESS = ["0", "1", "-1", "1.5", "None", "bsp", "", "\u0661", "1e3", "9" * 400, "nan", "2s"]


@pytest.mark.parametrize("text", STALENESS)
def test_nonsensical_staleness_is_refused_with_the_range_and_zero_is_lock_step(text: str) -> None:
    """Magic numbers mean nothing here."""
    found = Settings({"mode": "ssp", "staleness": text}, {}, file=os.devnull)
    bounds = found.run("r").consistency
    if text in ("0", "1"):
        assert not found.problems.found
        assert bounds.staleness == int(text)
    else:
        assert len(found.problems.found) == 1
        assert "is not a whole number from 0 to 1000000" in found.problems.found[0]


# -- finding the file ------------------------------------------------------------------------------------------------


def test_the_file_of_the_working_directory_counts_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By option, then by variable."""
    monkeypatch.chdir(tmp_path)
    assert find_file(None, {}) is None
    Path("driftline.toml").write_text("")
    assert find_file(None, {}) == Path("driftline.toml")
    assert find_file(None, {"DRIFTLINE_CONFIG": "b.toml"}) == Path("b.toml")
    assert find_file("a.toml", {"DRIFTLINE_CONFIG": "b.toml"}) == Path("a.toml")


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"\xff", "is no UTF-8 text")])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, said: str, tmp_path: Path) -> None:
    """Before anything else is done."""
    file = tmp_path / "run.toml"
    if content is not None:
        file.write_bytes(content)
    done = run("status", "r", "--config", str(file), "--home", str(tmp_path / "home"))
    assert done.exit_code == 2
    assert f"configuration file {file}: {said}" in done.stderr


def test_a_misspelt_variable_is_found_and_another_programs_is_none_of_ours() -> None:
    """DRIFTLINE_TEST_BOOTSTRAP is the tests' own."""
    problems = Problems()
    misspelt_variables({"DRIFTLINE_STALENES": "1", "DRIFTLINE_TEST_BOOTSTRAP": "h:1", "PATH": "/"}, problems)
    assert problems.found == ["DRIFTLINE_STALENES: there is no such setting; did you mean DRIFTLINE_STALENESS?"]


def test_names_and_kafka_may_come_from_the_file(tmp_path: Path) -> None:
    """Then a command needs no words at all."""
    file = tmp_path / "run.toml"
    file.write_text(f'[kafka]\nbootstrap_servers = "{NOWHERE}"\nconnect_timeout = 0.3\n[run]\nname = "r"\n')
    for command in (["server"], ["status"], ["verify"], ["runs"]):
        done = run(*command, "--config", str(file))
        assert done.exit_code == 1
        assert f"no Kafka answered at {NOWHERE} within 0.3 s" in done.stderr
    done = run("worker", "--config", str(file))
    assert "TASK is missing: give it, or set DRIFTLINE_TASK, or task.name in a file" in done.stderr


# -- from Python -----------------------------------------------------------------------------------------------------


def test_python_reads_the_same_settings(tmp_path: Path) -> None:
    """Numbers as numbers; what is not said comes from environment and file."""
    file = tmp_path / "run.toml"
    file.write_text('[run]\nmode = "ssp"\nsteps = 9\n')
    found = load_run_settings(
        "r", {"staleness": 3, "workers": None}, environment={"DRIFTLINE_SEED": "5"}, file=str(file)
    )
    assert (found.consistency.mode, found.consistency.staleness) == ("ssp", 3)
    assert (found.steps, found.seed, found.workers) == (9, 5, 3)
    assert found.chosen == frozenset({"mode", "steps", "staleness", "seed"})
    with pytest.raises(ConfigError) as refused:
        load_run_settings("a/b", {"stalenes": 3, "workers": 0}, environment={})
    assert len(refused.value.problems) == 3


def test_defaults_are_the_same_everywhere() -> None:
    """The defaults of the table are those of the command line and of Python."""
    assert load_run_settings("r", {}, environment={}) == Settings({}, {}).run("r")
    assert {one.parameter for one in RUN} >= {"mode", "staleness", "workers", "steps"}


def test_a_script_gives_sizes_that_no_option_has() -> None:
    """They belong to its data, not to a machine."""
    found = load_run_settings("r", {"samples": 7}, environment={"DRIFTLINE_BATCH_SIZE": "5"})
    assert (found.samples, found.batch_size, found.block) == (7, 0, 0)
    assert {one.parameter for one in SCRIPT} - {one.parameter for one in RUN} == {"samples", "batch_size", "block"}


# -- looking at them -------------------------------------------------------------------------------------------------


def test_the_settings_are_shown_with_their_sources_and_without_secrets(tmp_path: Path) -> None:
    """For people and for programs."""
    file = tmp_path / "run.toml"
    file.write_text('[run]\nmode = "ssp"\n[kafka.properties]\n"sasl.password" = "hunter2"\n')
    env = {"DRIFTLINE_KAFKA_PROPERTIES": "ssl.key.password=hunter3\nclient.id=me", "DRIFTLINE_SEED": "5"}
    words = ("config", "--config", str(file), "--workers", "2")
    done = run(*words, env=env)
    assert done.exit_code == 0
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines["run.mode"] == ["ssp", f"{file}:2"]
    assert lines["run.seed"] == ["5", "DRIFTLINE_SEED"]
    assert lines["run.workers"] == ["2", "--workers"]
    assert lines["run.partitions"] == ["4", "default"]
    assert lines["kafka.properties.sasl.password"][0] == lines["kafka.properties.ssl.key.password"][0] == "***"
    assert lines["kafka.properties.client.id"] == ["me", "DRIFTLINE_KAFKA_PROPERTIES"]
    assert {one.path for one in KEYS if one.kind is not Kind.PAIRS} <= lines.keys()
    shown = json.loads(run(*words, "--json", env=env).stdout)
    assert shown["file"] == str(file)
    assert {"setting": "run.workers", "value": "2", "source": "--workers", "said": "--workers"} in shown["settings"]
    assert "hunter" not in str(shown) + done.output


def test_what_is_wrong_is_listed_behind_the_settings() -> None:
    """All of it, with the exit code of a wrong configuration."""
    done = run(
        "config", "digts", "--workers", "0", "--servers", "0", "--run", "a b", "--kafka-property", "linger.mss=1"
    )
    assert done.exit_code == 2
    for part in ("did you mean digits?", "zero workers", "zero servers", "run name 'a b'", "did you mean linger.ms?"):
        assert part in done.stderr
    assert "run.workers" in done.stdout


def test_the_reference_file_says_the_defaults_and_can_be_uncommented() -> None:
    """Every setting, in a file that is TOML with and without its comment signs."""
    text = run("config", "--reference").stdout
    assert settings(text).given == {}
    bare = "\n".join(line.removeprefix("#") if re.match(r"#[a-z_]+ = ", line) else line for line in text.splitlines())
    choice = settings(bare)
    for one in KEYS:
        assert choice.is_given(one), one.path
        assert one.default is None or choice.text(one) == one.default
        assert one.variable in text


def test_train_gives_its_processes_no_second_opinion() -> None:
    """What was settled is on their command lines; variables and the file of the directory must not count again."""
    environment = child_environment(Connection(Path(), NOWHERE, {"sasl.password": "x"}, 3.0, group_protocol="static"))
    assert environment.keys() >= {one.variable for one in KEYS}
    before = {one.variable: "7" for one in RUN} | {"DRIFTLINE_CONFIG": "run.toml"}
    after = before | environment
    choice = choose({}, after)
    assert not any(choice.is_given(one) for one in RUN)
    assert after["DRIFTLINE_CONFIG"] == os.devnull
    assert [one.text for one in choice.pairs(PROPERTIES)] == ["sasl.password=x"]
    assert choice.text(PROTOCOL) == "static"


@pytest.mark.parametrize(("asked_s", "given"), [(3.0, "60.0"), (90.0, "90.0")])
def test_train_gives_its_processes_time_to_reach_a_kafka_that_answered(asked_s: float, given: str) -> None:
    """Ten of them begin at once, on a machine that may have other things to do."""
    environment = child_environment(Connection(Path(), NOWHERE, {}, asked_s))
    assert choose({}, environment).text(TIMEOUT) == given


def test_a_problem_of_one_setting_does_not_carry_the_place_of_another() -> None:
    """The task is an argument: it has no option that a problem could begin with."""
    done = run("worker", "digits", "--run", "r", "--workers", "0", "--bootstrap-servers", NOWHERE)
    assert done.stderr.startswith("driftline: --workers: zero workers")
    done = run("runs", "create", "--task", "digits", "--seed", "x", "--bootstrap-servers", NOWHERE)
    assert [line.removeprefix("driftline: ") for line in done.stderr.splitlines()] == [
        "NAME is missing: give it, or set DRIFTLINE_RUN, or run.name in a file",
        "--seed: 'x' is not a whole number from 0 to 9223372036854775807",
    ]


def test_settings_that_a_run_without_a_task_would_not_keep_are_refused() -> None:
    """Or a user would believe that they are frozen."""
    done = run("runs", "create", "r", "--mode", "ssp", "--bootstrap-servers", NOWHERE)
    assert done.exit_code == 2
    assert "--mode: a run keeps it only if it is made from a task; add --task" in done.stderr
