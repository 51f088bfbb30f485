"""Wrong words on the command line: refused at once, all together, before anything is started or created."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from driftline.broker.embedded.status import BrokerStatus
from driftline.cli import main
from driftline.config.choosing import Given
from driftline.config.connection import Connection
from driftline.config.members import check_member_name, own_name
from driftline.config.pairs import join_pairs, split_pairs
from driftline.config.problems import Problems
from driftline.config.values import read_pairs
from driftline.errors import UsageError
from driftline.runs.naming import default_run_name

NOWHERE = "127.0.0.1:9"


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    """Call the command line in this process, without the environment of the test's user."""
    surroundings: dict[str, str | None] = {name: None for name in os.environ if name.startswith("DRIFTLINE_")}
    return CliRunner().invoke(main, words, env={**surroundings, **(env or {})})


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A folder that must not come to be."""
    return str(tmp_path / "home")


WHOLE = [
    ("--workers", "0", "zero workers compute nothing: give a whole number from 1 to 10000"),
    ("--workers", "-1", "'-1' is not a whole number from 1 to 10000"),
    ("--workers", "two", "'two' is not a whole number from 1 to 10000"),
    ("--staleness", "-1", "'-1' is not a whole number from 0 to 1000000"),
    ("--staleness", "1.5", "'1.5' is not a whole number from 0 to 1000000"),
    ("--staleness", "None", "'None' is not a whole number"),
    ("--staleness", "9" * 5000, "is not a whole number from 0 to 1000000"),
    ("--steps", "0", "zero steps train nothing: give a whole number from 1"),
    ("--steps", "1e3", "'1e3' is not a whole number"),
    ("--steps", "1_000", "'1_000' is not a whole number"),
    ("--steps", "١٢", "is not a whole number"),
    ("--epochs", "0", "zero passes train nothing"),
    ("--broker-nodes", "2", "--broker-nodes: a broker of 2 nodes cannot be made: an even number"),
    ("--broker-nodes", "0", "--broker-nodes: '0' is not a whole number from 1 to 7"),
    ("--seed", "-1", "'-1' is not a whole number from 0 to 9223372036854775807"),
    ("--partitions", "0", "--partitions: zero partitions hold nothing: give a whole number from 1 to 1000"),
    ("--mode", "snyc", "'snyc' is not known; did you mean sync?"),
    ("--mode", "allreduce", "'allreduce' is not known; there are sync, ssp, buffered, async"),
    ("--mode", "buffered", "--buffer: mode buffered needs the number of contributions that close a version"),
    ("--weighting", "invers", "'invers' is not known; did you mean inverse?"),
    ("--max-age", "1s", "'1s' is not a number from 0 to 1e+09"),
    ("--decay", "cosin", "did you mean cosine?"),
    ("--schedule", "script", "'script' is for scripts with a loop of their own; the rates of a task follow from"),
    ("--clock", "fast", "--clock: 'fast' is not a duration from 1ms to 300s, like 2s or 500ms, or 0 for none"),
    ("--clock", "-1s", "'-1s' is not a duration"),
    ("--clock", "301s", "'301s' is not a duration"),
    ("--clock", "0.1ms", "0.0001 s is shorter than 0.001 s"),
    ("--run", "my run/1", "run name 'my run/1' is not usable"),
    ("--run", "a.b", "run name 'a.b' is not usable"),
    ("--run", "x" * 250, "has 250 characters"),
    ("--set", "channels", "--set 'channels': a value is missing; write --set channels=VALUE"),
    ("--kafka-property", "linger.mss=1", "did you mean linger.ms?"),
    ("--group-protocol", "consumr", "--group-protocol: 'consumr' is not known; did you mean consumer?"),
    ("--kafka-property", "group.protocol=consumer", "remove it; choose it with --group-protocol"),
    ("--bootstrap-servers", "", "is not an address; an example is"),
    ("--bootstrap-servers", "localhost", "'localhost' is not an address"),
    ("--bootstrap-servers", "localhost:99999", "is not an address"),
]


@pytest.mark.parametrize(("option", "value", "message"), WHOLE, ids=lambda value: str(value)[:24])
def test_train_refuses_a_wrong_value_with_the_valid_range(option: str, value: str, message: str, home: str) -> None:
    """Exit code 2, one line, nothing made."""
    done = run("train", "digits", "--home", home, option, value)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path(home).exists()


def test_nodes_are_for_the_broker_of_this_machine_only() -> None:
    """Or a user would believe that a Kafka elsewhere got them."""
    done = run("train", "digits", "--broker-nodes", "3", "--bootstrap-servers", NOWHERE)
    assert done.exit_code == 2
    assert "--broker-nodes: is for the broker of --home; remove it or --bootstrap-servers" in done.stderr


def test_train_names_everything_that_is_wrong_at_once(home: str) -> None:
    """One round instead of four."""
    words = ["--workers", "0", "--servers", "0", "--steps", "1", "--epochs", "1", "--run", "a b", "--home", home]
    done = run("train", "digts", *words)
    assert done.exit_code == 2
    for part in ("did you mean digits?", "zero workers", "zero servers", "--steps and --epochs", "run name 'a b'"):
        assert part in done.stderr


def test_a_misspelt_setting_of_the_task_is_answered_with_the_near_one(tmp_path: Path) -> None:
    """By the task itself; a worker knows before it asks for Kafka."""
    task = tmp_path / "tiny.py"
    task.write_text(
        "from dataclasses import dataclass\nfrom driftline.training.task import Task\n\n"
        "@dataclass(kw_only=True)\nclass Tiny(Task):\n    rate: float = 0.1\n"
        "    def model(self): ...\n    def data(self, split): ...\n    def loss(self, model, batch): ...\n"
        "    def optimizer(self, model): ...\n    def metrics(self, model, batches): ...\n"
    )
    words = ["--run", "r", "--bootstrap-servers", NOWHERE, "--set", "rat=1", "--set", "batch_size=many"]
    done = run("worker", f"{task}:Tiny", *words)
    assert done.exit_code == 2
    assert "unknown setting 'rat'; did you mean rate?" in done.stderr
    assert "'many' is not a whole number" in done.stderr


@pytest.mark.parametrize("role", ["server", "worker"])
def test_a_role_without_a_broker_says_how_to_start_one(role: str, home: str) -> None:
    """No address, and no broker of this home."""
    words = ["server", "r"] if role == "server" else ["worker", "digits", "--run", "r"]
    done = run(*words, "--home", home)
    assert done.exit_code == 2
    assert "driftline broker start" in done.stderr
    assert "--bootstrap-servers" in done.stderr
    assert f"{home} has no broker yet" in done.stderr


def test_a_role_in_another_directory_than_the_broker_reads_which_one_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default home is relative: its name alone would start a second, empty Kafka elsewhere."""
    monkeypatch.chdir(tmp_path)
    done = run("server", "r")
    assert f"{tmp_path / '.driftline'} has no broker yet" in done.stderr
    assert "name the --home (DRIFTLINE_HOME) of another" in done.stderr


@pytest.mark.parametrize("words", [["status", "r"], ["runs"], ["runs", "list"], ["runs", "delete", "r"]])
def test_reading_a_home_without_a_broker_starts_none(words: list[str], home: str) -> None:
    """There is nothing to read."""
    done = run(*words, "--home", home)
    assert done.exit_code == 2
    assert "it has no broker yet" in done.stderr
    assert not Path(home).exists()


@pytest.mark.parametrize("pid", [None, 7])
def test_a_command_that_starts_kafka_for_itself_says_how_to_keep_it(
    pid: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each look at a run waits for Kafka."""
    state = "stopped" if pid is None else "ready"
    status = BrokerStatus(state, NOWHERE, pid, keep=False, aot=False, home=Path("h"), log=Path("log"))
    idle = SimpleNamespace(status=lambda: status, start=lambda: None, release=lambda: None, bootstrap_servers=NOWHERE)
    monkeypatch.setattr(Connection, "_embedded", lambda *_: idle)
    monkeypatch.setattr(Connection, "reach", lambda *_: None)
    said: list[str] = []
    with Connection(Path("h")).readable(said.append):
        pass
    assert any(line.endswith("driftline broker start --home h") for line in said) == (pid is None)


COMMANDS = [["server", "r"], ["status", "r"], ["runs"], ["runs", "delete", "r"], ["train", "digits"]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unreachable_broker_fails_in_time_and_names_the_address(words: list[str], home: str) -> None:
    """Given as an option or in the environment."""
    done = run(*words, "--home", home, "--connect-timeout", "0.3", env={"DRIFTLINE_BOOTSTRAP_SERVERS": NOWHERE})
    assert done.exit_code == 1
    assert NOWHERE in done.stderr
    assert "0.3 s" in done.stderr


def test_an_option_beats_the_environment(home: str) -> None:
    """The address that was typed is the one that is tried."""
    words = ["--bootstrap-servers", "127.0.0.1:10", "--connect-timeout", "0.3", "--home", home]
    done = run("server", "r", *words, env={"DRIFTLINE_BOOTSTRAP_SERVERS": NOWHERE})
    assert "127.0.0.1:10 " in done.stderr
    assert f"{NOWHERE} " not in done.stderr


def test_a_secret_is_never_repeated(home: str) -> None:
    """Neither from the command line nor from the environment, where a value may hold spaces."""
    secret = "hunter2 and more"  # noqa: S105 - it is the test's
    env = {"DRIFTLINE_KAFKA_PROPERTIES": f"sasl.password={secret}\nlinger.mss=1", "DRIFTLINE_HOME": home}
    done = run("server", "r", "--bootstrap-servers", NOWHERE, env=env)
    assert done.exit_code == 2
    assert "linger.mss" in done.stderr
    assert "hunter2" not in done.output


@pytest.mark.parametrize("command", ["train", "server", "worker", "status", "runs"])
def test_help_shows_the_environment_variables(command: str) -> None:
    """A reader who finds the option finds the variable."""
    done = run(command, "--help")
    assert {"DRIFTLINE_BOOTSTRAP_SERVERS", "DRIFTLINE_HOME"} <= set(
        done.output.replace("]", " ").replace(";", " ").split()
    )


# -- names -----------------------------------------------------------------------------------------------------------

LEGAL = ["worker-1", "W", "x" * 64, "Zoë", "עובד", "工人 3", "w🙂", "a..b"]
ILLEGAL = ["", "x" * 65, "a/b", "a\\b", "../x", ".hidden", "a\nb", "\x00", "\ud800", " a", "a ", "\u202eabc"]


@pytest.mark.parametrize("name", LEGAL)
def test_a_printable_name_is_accepted(name: str) -> None:
    """Whatever the script."""
    assert check_member_name(name, "worker") == name


@pytest.mark.parametrize("name", ILLEGAL, ids=ascii)
def test_a_name_that_could_be_a_path_or_cannot_be_shown_is_refused(name: str) -> None:
    """And the message itself can be printed anywhere."""
    with pytest.raises(UsageError) as refused:
        check_member_name(name, "worker")
    assert str(refused.value).isprintable()
    assert 'an example is "worker-1"' in str(refused.value)


def test_a_default_name_is_legal_and_says_where_it_runs() -> None:
    """Unique by the process id."""
    assert check_member_name(own_name("server"), "server").endswith(f"-{os.getpid()}")


@pytest.mark.parametrize(
    ("spec", "name"),
    [("digits", "digits"), ("pkg.mod:MyTask", "mytask"), ("a/b.py:x.Y_z", "y-z"), ("f.py:名", "run")],
)
def test_a_run_is_called_after_its_task(spec: str, name: str) -> None:
    """A legal name, whatever the task is called."""
    assert default_run_name(spec) == name


def test_pairs_are_split_at_the_first_equals_sign_and_given_once() -> None:
    """Values may hold anything."""
    problems = Problems()

    def read(*pairs: str) -> dict[str, str]:
        return read_pairs([Given(pair, "--set") for pair in pairs], problems)

    assert read("a=1=2", "b= c ") == {"a": "1=2", "b": " c "}
    assert not problems.found
    for pairs, expected in (
        (["=x"], "a name is missing"),
        (["a"], "a value is missing"),
        (["a=1", "a=2"], "given twice"),
    ):
        read(*pairs)
        assert expected in problems.found[-1]


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqh=\nAbCdEf==\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "values",
    [
        {"a": "1", "b": "x=y"},
        {"ssl.key.pem": KEY, "client.id": "me"},
        {"ssl.ca.pem": f"{KEY}\n{KEY}\n", "z": "\ttabs\n\tand lines"},
        {},
    ],
)
def test_pairs_pass_through_a_variable_as_they_are(values: dict[str, str]) -> None:
    """From `driftline train` to its processes, values of several lines included."""
    assert dict(pair.split("=", 1) for pair in split_pairs(join_pairs(values))) == values


def test_a_pem_block_is_one_value_however_lines_end() -> None:
    """As a person pastes it, or as a file of Windows holds it."""
    text = f"ssl.key.pem={KEY}\nclient.id=me\n"
    expected = [f"ssl.key.pem={KEY}", "client.id=me"]
    assert split_pairs(text) == split_pairs(text.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize("text", ["MIIEvQIBADANBgkqh=\nAbCdEf", "ssl.key.pem=MIIEvQ\nAbCdEf=x", "AbCdEf=1\nAbCdEf=2"])
def test_no_part_of_a_key_is_quoted(text: str, home: str) -> None:
    """Whatever it is mistaken for."""
    done = run("status", "r", "--home", home, env={"DRIFTLINE_KAFKA_PROPERTIES": text})
    assert done.exit_code == 2
    assert "AbCdEf" not in done.output + done.stderr
    assert "MIIEv" not in done.output + done.stderr


def test_a_task_file_that_is_not_there_is_noticed_before_anything_starts(home: str) -> None:
    """Starting a Kafka first would take seconds."""
    done = run("train", "no/such.py:Task", "--home", home)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no file 'no/such.py'" in done.stderr
    assert not Path(home).exists()
