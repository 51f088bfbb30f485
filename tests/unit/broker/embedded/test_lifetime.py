"""How long a broker lives, with a small program in the JVM's place."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driftline.broker.embedded import EmbeddedBroker, boot, broker, cluster, java, prepare, process
from driftline.broker.embedded.process import Launch, load_launch, save_launch
from driftline.errors import EmbeddedBrokerError

pytestmark = pytest.mark.slow

JAVA = """#!{python} -S
import os, pathlib, signal, socket, struct, sys, time
here = pathlib.Path(__file__).parents[1]
with open(here / "starts", "a") as starts:
    starts.write(" ".join(sys.argv[1:]) + "\\n")
if any(word.startswith("-XX:AOTCache=") for word in sys.argv) and (here / "cache-crashes").exists():
    sys.exit("# SIGSEGV")
told = dict(line.strip().split("=", 1) for line in open("server.properties"))
if "kafka.tools.StorageTool" in sys.argv:
    os.makedirs("data", exist_ok=True)
    pathlib.Path("data/meta.properties").write_text("")
    sys.exit(0)
if (here / "fails").exists():
    sys.exit("FATAL: this JVM does not want to")
if (here / "stubborn").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if (here / "slow").exists():
    signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), os._exit(0)))
voters = [int(voter.partition("@")[0]) for voter in told["controller.quorum.voters"].split(",")]
if any(word.startswith("-XX:AOTCache=") for word in sys.argv) and (here / "cache-refused").exists():
    print("[0.003s][error  ][aot] Unable to map shared spaces", flush=True)
for word in sys.argv:
    if word.startswith("-XX:AOTCacheOutput=") and not (here / "forgets").exists():
        pathlib.Path(word.partition("=")[2]).write_text("made")
server = socket.create_server(("127.0.0.1", int(told["listeners"].split(",")[0].rpartition(":")[2])))
while True:
    connection, _ = server.accept()
    with connection:
        if connection.recv(1024) and not (here / "mute").exists():
            nodes = b"".join(struct.pack(">ih1sih", voter, 1, b"h", 9092, -1) for voter in voters)
            body = struct.pack(">ii", 7, len(voters)) + nodes + struct.pack(">ii", 1, 0)
            connection.sendall(struct.pack(">i", len(body)) + body)
"""

USER = """
import pathlib, sys, time
from driftline.broker.embedded import EmbeddedBroker, broker, java
home, fake = map(pathlib.Path, sys.argv[1:])
java.java_home = lambda: fake
broker.ensure_jars = lambda report: []
java.find_cache = lambda class_path: None
print(EmbeddedBroker(home, prepare=False).start(20), flush=True)
time.sleep(60)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a small program in the JVM's place; files in its folder make it misbehave."""
    home = tmp_path / "java"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA.replace("{python}", sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(java, "java_home", lambda: home)
    monkeypatch.setattr(broker, "ensure_jars", lambda _report: [])
    monkeypatch.setattr(java, "find_cache", lambda _class_path: None)
    return home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose broker ends with the test."""
    path = tmp_path / "home"
    yield path
    EmbeddedBroker(path).stop(1.0)


def make(home: Path, *, keep: bool = False, port: int | None = None) -> EmbeddedBroker:
    """Return a broker that makes no cache afterwards."""
    return EmbeddedBroker(home, keep=keep, port=port, prepare=False)


def until(condition: Callable[[], bool], what: str, timeout_s: float = 15.0) -> None:
    """Wait for ``condition``."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"still not: {what}"
        time.sleep(0.05)


def user(home: Path, fake: Path) -> "subprocess.Popen[str]":
    """Start another process that uses the broker."""
    command = [sys.executable, "-c", USER, str(home), str(fake)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def address_of(running: "subprocess.Popen[str]") -> str:
    """Read the address that a user printed."""
    assert running.stdout is not None
    return running.stdout.readline().strip()


def test_a_broker_runs_for_the_length_of_its_block(fake: Path, home: Path) -> None:
    """The next one has the same address."""
    with make(home) as first:
        seen = first.status()
        assert (seen.state, seen.running, seen.keep) == ("ready", True, False)
    assert first.status().state == "stopped"
    assert fake.exists()
    with make(home) as second:
        assert second.bootstrap_servers == first.bootstrap_servers == seen.bootstrap_servers


def test_a_kept_broker_runs_until_it_is_stopped(fake: Path, home: Path) -> None:
    """It needs no users, a block around it does not end it, and a second stop is no error."""
    make(home, keep=True).start()
    with make(home):
        pass
    time.sleep(1.2)
    assert make(home).status().state == "ready"
    assert make(home).stop()
    assert not make(home).stop()
    assert fake.exists()


def test_a_broker_ends_after_its_user_was_killed(fake: Path, home: Path) -> None:
    """``kill -9`` of the process that started it: the watchdog sees the lock become free."""
    with user(home, fake) as only:
        address_of(only)
        assert make(home).status().state == "ready"
        only.kill()
    until(lambda: not make(home).status().running, "the broker ends after its user")


def test_a_broker_runs_until_its_last_user_ends(fake: Path, home: Path) -> None:
    """Also when the user that started it ends first."""
    with user(home, fake) as first, user(home, fake) as second:
        assert address_of(first) == address_of(second) != ""
        first.kill()
        first.wait(timeout=5)
        time.sleep(1.2)
        assert make(home).status().state == "ready"
        second.kill()
    until(lambda: not make(home).status().running, "the broker ends after its last user")


def test_two_starts_at_once_are_one_broker(fake: Path, home: Path) -> None:
    """The second start finds the broker of the first."""
    with user(home, fake) as first, user(home, fake) as second:
        assert address_of(first) == address_of(second) != ""
        brokers = [line for line in (fake / "starts").read_text().splitlines() if "kafka.Kafka" in line]
        first.kill()
        second.kill()
    assert len(brokers) == 1


def test_a_broker_ends_when_its_home_is_removed(fake: Path, home: Path) -> None:
    """A test's temporary folder, or ``rm -rf``: no process is left, and release raises nothing."""
    ours = make(home)
    ours.start()
    launch = load_launch(home / "broker" / "node-1" / "process.json")
    assert launch is not None
    home.rename(home.with_name("gone"))
    until(lambda: not process.is_running(launch), "the broker ends without its home")
    ours.release()
    assert fake.exists()


def test_a_killed_broker_comes_back_at_its_address(fake: Path, home: Path) -> None:
    """Until then its status is ``died``."""
    with make(home) as ours:
        before = ours.bootstrap_servers
        ours.kill()
        assert ours.status().state == "died"
        assert ours.start() == before
        assert ours.status().state == "ready"
    assert fake.exists()


def test_a_stale_process_file_does_not_harm_another_process(fake: Path, home: Path) -> None:
    """Another process has the id now: it lives on, and the broker starts."""
    with make(home):
        pass
    with subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"]) as stranger:
        save_launch(home / "broker" / "node-1" / "process.json", Launch(stranger.pid, "old token", aot=False))
        assert make(home).status().state == "died"
        assert not make(home).stop()
        save_launch(home / "broker" / "node-1" / "process.json", Launch(stranger.pid, "old token", aot=False))
        with make(home) as ours:
            assert ours.status().pid != stranger.pid
        assert stranger.poll() is None
        stranger.kill()
    assert fake.exists()


def test_a_copied_home_does_not_touch_the_broker_of_the_original(fake: Path, home: Path, tmp_path: Path) -> None:
    """Its files name the original's process; the copy starts a broker of its own."""
    with make(home) as ours:
        copy = shutil.copytree(home, tmp_path / "copy")
        assert not make(copy).status().running
        assert not make(copy).kill()
        assert not make(copy).stop()
        with make(copy) as other:
            assert other.bootstrap_servers != ours.bootstrap_servers
            assert other.status().pid != ours.status().pid
        assert ours.status().state == "ready"
    assert fake.exists()


def test_a_process_that_ignores_sigterm_is_killed(fake: Path, home: Path) -> None:
    """After the time-out, not before."""
    (fake / "stubborn").touch()
    ours = make(home)
    ours.start()
    before = time.monotonic()
    assert ours.stop(timeout_s=0.5)
    assert 0.5 <= time.monotonic() - before < 5
    assert not ours.status().running


def test_a_failed_start_shows_why_and_leaves_nothing(fake: Path, home: Path) -> None:
    """The error holds the end of the log."""
    (fake / "fails").touch()
    with pytest.raises(EmbeddedBrokerError, match=r"(?s)ended while it started.*does not want to"):
        make(home).start()
    assert make(home).status().state == "stopped"
    (fake / "fails").unlink()
    with make(home) as ours:
        assert ours.status().state == "ready"


def test_a_start_that_takes_too_long_is_given_up(fake: Path, home: Path) -> None:
    """The error names the address that did not answer, and no process is left."""
    (fake / "mute").touch()
    with pytest.raises(EmbeddedBrokerError, match=r"did not answer a metadata request at 127\.0\.0\.1:\d+ in time"):
        make(home).start(timeout_s=1.0)
    assert not make(home).status().running


def test_a_running_broker_is_not_moved(fake: Path, home: Path) -> None:
    """Asking for another port names the port it has."""
    with make(home) as ours:
        used = int(ours.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(EmbeddedBrokerError, match=rf"runs at port {used}, not {used + 1}"):
            make(home, port=used + 1).start()
        assert make(home, port=used).start() == ours.bootstrap_servers
        make(home).stop()
    assert fake.exists()


def test_a_crashing_cache_is_dropped_and_the_broker_starts(
    fake: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is started once more, without the cache."""
    (fake / "cache-crashes").touch()
    cache = tmp_path / "kafka.aot"
    cache.write_bytes(b"broken")
    monkeypatch.setattr(java, "find_cache", lambda _class_path: cache if cache.exists() else None)
    with make(home) as ours:
        assert (ours.status().state, ours.status().aot) == ("ready", False)
    assert not cache.exists()


def test_a_cache_that_the_jvm_refuses_is_dropped(
    fake: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It does no harm, but a new one must be made."""
    (fake / "cache-refused").touch()
    cache = tmp_path / "kafka.aot"
    cache.write_bytes(b"of another JVM")
    monkeypatch.setattr(java, "find_cache", lambda _class_path: cache)
    with make(home) as ours:
        assert ours.status().state == "ready"
        assert not ours.status().aot
    assert not cache.exists()


def test_a_cache_is_made_after_a_broker_without_one_has_stopped(
    fake: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never while it runs."""
    asked: list[str] = []
    monkeypatch.setattr(broker, "prepare_later", lambda: asked.append(EmbeddedBroker(home).status().state))
    with EmbeddedBroker(home):
        assert not asked
    assert asked == ["stopped"]
    assert fake.exists()


def test_the_cache_is_made_by_a_throw_away_broker(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used like a broker, and neither its folder nor its process is left."""
    used: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(prepare, "ensure_jars", lambda _report: [])
    monkeypatch.setattr(prepare, "rehearse", used.append)
    (fake / "release").write_text("25")
    path = prepare.prepare()
    assert path is not None
    assert path.read_text() == "made"
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.stem}.json", "make.lock"]
    assert len(used) == 1
    assert not cluster.still_taken([int(used[0].rpartition(":")[2])], 1.0)


def test_a_cache_that_is_not_written_is_an_error(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the log of the throw-away broker, whose folder is deleted by then."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(prepare, "ensure_jars", lambda _report: [])
    (fake / "release").write_text("25")
    (fake / "fails").touch()
    with pytest.raises(EmbeddedBrokerError, match=r"(?s)wrote no ahead-of-time cache.*does not want to"):
        prepare.prepare()
    assert [file.name for file in java.cache_dir().iterdir()] == ["make.lock"]


def test_the_log_is_bounded(fake: Path, home: Path) -> None:
    """The watchdog truncates it while the JVM runs, and keeps the old part."""
    with make(home) as ours:
        log = ours.status().log
        with log.open("ab") as file:
            file.write(b"x" * (boot._MAX_LOG_BYTES + 1))
        until(lambda: log.stat().st_size == 0, "the log is cut")
        until(lambda: log.with_name("broker.log.1").stat().st_size > boot._MAX_LOG_BYTES, "its old part is kept")
    assert fake.exists()


def test_the_broker_outlives_the_terminal(fake: Path, home: Path) -> None:
    """It has its own session: neither Ctrl-C nor a closed terminal reaches it."""
    with make(home) as ours:
        pid = ours.status().pid
        assert pid is not None
        assert os.getsid(pid) == pid != os.getsid(0)
        os.killpg(os.getpgid(pid), signal.SIGCONT)
    assert fake.exists()
