"""Files, ports, locks and process ids: what is kept, and what is never trusted."""

import errno
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from driftline.broker.embedded import process
from driftline.broker.embedded.cluster import (
    NodeAddress,
    choose_port,
    load_cluster,
    new_cluster,
    save_cluster,
    settle_address,
    still_taken,
)
from driftline.broker.embedded.files import FileLock, Layout, cache_root, make_dir, quiet
from driftline.broker.embedded.java import java_environment
from driftline.broker.embedded.process import Launch, load_launch, save_launch
from driftline.errors import EmbeddedBrokerError


@contextmanager
def listening() -> Iterator[int]:
    """Take a port that a broker could have chosen."""
    port = choose_port()
    with socket.create_server(("127.0.0.1", port)):
        yield port


@contextmanager
def sleeper(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that does nothing, with ``arguments`` on its command line."""
    with subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)", *arguments]) as child:
        try:
            yield child
        finally:
            child.kill()


def no() -> bool:
    """Refuse to move."""
    return False


def yes() -> bool:
    """Agree to move."""
    return True


def test_a_cluster_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Also one of three nodes; all of its ports differ."""
    cluster = new_cluster(nodes=3)
    save_cluster(tmp_path / "cluster.json", cluster)
    assert load_cluster(tmp_path / "cluster.json") == cluster
    used = [port for node in cluster.nodes for port in (node.broker_port, node.controller_port)]
    assert len(set(used)) == 6
    assert cluster.bootstrap_servers.count(",") == 2


def test_ports_are_outside_the_range_of_outgoing_connections() -> None:
    """Otherwise a client that waits for the broker could get the broker's port."""
    assert all(port < 32768 for node in new_cluster(nodes=3).nodes for port in (node.broker_port, node.controller_port))


def test_cluster_ids_do_not_look_like_options() -> None:
    """The format tool would read one that begins with a dash as an option."""
    ids = {new_cluster().cluster_id for _ in range(50)}
    assert all(len(one) == 22 and one[0] != "-" for one in ids)
    assert len(ids) == 50


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster_id": "x"}', '{"cluster_id": "x", "nodes": [{"id": 1}]}'])
def test_a_damaged_cluster_file_is_named_and_never_replaced(tmp_path: Path, text: str) -> None:
    """A new cluster id would not fit the data."""
    path = tmp_path / "cluster.json"
    path.write_text(text)
    with pytest.raises(EmbeddedBrokerError, match=r"cluster\.json cannot be used"):
        load_cluster(path)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", "{}", "null", '{"pid": "x", "token": "t", "aot": true}'])
def test_a_damaged_process_file_names_no_process(tmp_path: Path, text: str) -> None:
    """No process counts as ours because of it."""
    (tmp_path / "process.json").write_text(text)
    assert load_launch(tmp_path / "process.json") is None


def test_a_free_address_is_kept() -> None:
    """Every start has the same ports."""
    kept = new_cluster().nodes[0]
    assert settle_address(kept, None, 0.0, may_move=no, report=quiet) == kept


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    """The broker does not move while clients may wait at the old port."""
    with listening() as port, pytest.raises(EmbeddedBrokerError, match=rf"port {port} .*--port"):
        settle_address(NodeAddress(1, port, choose_port({port})), None, 0.0, may_move=no, report=quiet)


def test_a_port_in_use_is_given_up_when_no_client_waits_there() -> None:
    """The move is reported."""
    lines: list[str] = []
    with listening() as port:
        moved = settle_address(NodeAddress(1, port, choose_port({port})), None, 0.0, may_move=yes, report=lines.append)
    assert moved.broker_port != port
    assert str(port) in lines[0]
    assert str(moved.broker_port) in lines[0]


def test_a_controller_port_in_use_changes_alone() -> None:
    """Clients never see it, so their address stays."""
    with listening() as taken:
        kept = NodeAddress(1, choose_port({taken}), taken)
        moved = settle_address(kept, None, 0.0, may_move=no, report=quiet)
    assert moved.broker_port == kept.broker_port
    assert moved.controller_port != taken


def test_a_port_that_the_user_chose_is_used() -> None:
    """Even when it was the controller's until now."""
    kept = new_cluster().nodes[0]
    assert (
        settle_address(kept, kept.controller_port, 0.0, may_move=no, report=quiet).broker_port == kept.controller_port
    )


def test_a_port_is_given_time_to_become_free() -> None:
    """A process that was just killed still holds it for a moment."""
    with socket.create_server(("127.0.0.1", port := choose_port())):
        assert still_taken([port], 0.1) == [port]
    assert still_taken([port], 1.0) == []


def test_our_process_is_known_by_its_token() -> None:
    """The same id with another command line is another process: the id was reused."""
    token = secrets.token_hex(16)
    with sleeper(token) as child:
        ours, reused = Launch(child.pid, token, aot=False), Launch(child.pid, secrets.token_hex(16), aot=False)
        assert process.is_running(ours)
        assert not process.is_running(reused)


def test_another_process_is_never_signalled() -> None:
    """Not even when our id file names it."""
    with sleeper() as stranger:
        assert not process.send(Launch(stranger.pid, secrets.token_hex(16), aot=False), signal.SIGKILL)
        assert stranger.poll() is None


def test_a_zombie_does_not_count_as_running() -> None:
    """A container's first process may never collect the JVM."""
    token = secrets.token_hex(16)
    with sleeper(token) as child:
        child.kill()
        deadline = time.monotonic() + 5
        while process.is_running(Launch(child.pid, token, aot=False)):
            assert time.monotonic() < deadline


def test_a_process_that_is_becoming_the_jvm_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no command line for a moment; counting it as dead would start a second JVM."""
    seen: Iterator[list[str]] = iter([[], [], ["java", "-Dtoken=abc"]])
    monkeypatch.setattr("psutil.Process.cmdline", lambda _process: next(seen))
    assert process.is_running(Launch(os.getpid(), "abc", aot=False))


def test_a_long_wait_for_a_lock_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and only if it is long."""
    monkeypatch.setattr("driftline.broker.embedded.files._REPORT_AFTER_S", 0.1)
    lines: list[str] = []
    with FileLock(tmp_path / "lock") as other:
        assert other.try_acquire()
        with pytest.raises(EmbeddedBrokerError):
            FileLock(tmp_path / "lock").acquire(time.monotonic() + 0.4, "the other one", report=lines.append)
    assert lines == ["waiting for the other one"]


def test_a_killed_process_runs_until_its_last_thread_has_ended() -> None:
    """Its first thread is a zombie by then, and the process still holds its ports."""
    token = secrets.token_hex(16)
    first_ends = "import ctypes,threading,time; threading.Thread(target=time.sleep, args=(60,)).start(); "
    first_ends += "print(flush=True); ctypes.CDLL(None).pthread_exit(None)"
    command = [sys.executable, "-S", "-c", first_ends, token]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        until_s = time.monotonic() + 5
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        launch = Launch(child.pid, token, aot=False)
        assert process.is_running(launch)
        child.kill()
        child.wait(timeout=5)
        assert not process.is_running(launch)


@pytest.mark.parametrize("pid", [-1, 0, 2**40])
def test_an_impossible_process_id_is_no_process(pid: int) -> None:
    """A damaged id file may name one."""
    assert not process.is_running(Launch(pid, "token", aot=False))


def test_a_process_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Id, token and use of the cache."""
    launch = Launch(42, "token", aot=True)
    save_launch(tmp_path / "process.json", launch)
    assert load_launch(tmp_path / "process.json") == launch


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    """Also when the holder is killed; the file stays."""
    path = tmp_path / "change.lock"
    hold = "import fcntl,sys,time; f=open(sys.argv[1],'w'); fcntl.flock(f,fcntl.LOCK_EX); print(flush=True); "
    hold += "time.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", hold, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert not FileLock(path).try_acquire()
        with pytest.raises(EmbeddedBrokerError, match=r"gave up waiting for the other one.*change\.lock"):
            FileLock(path).acquire(time.monotonic() + 0.1, "the other one")
        holder.kill()
        with FileLock(path).acquire(time.monotonic() + 5, "the other one") as lock:
            assert lock.held
    assert path.exists()


def test_users_share_a_lock_and_the_last_one_holds_it_alone(tmp_path: Path) -> None:
    """It can be exclusive only without other users."""
    first, second = FileLock(tmp_path / "users"), FileLock(tmp_path / "users")
    assert first.try_acquire(shared=True)
    assert second.try_acquire(shared=True)
    assert not first.try_acquire()
    second.release()
    assert first.try_acquire()
    first.release()


def test_an_unusable_home_is_named(tmp_path: Path) -> None:
    """With the variable that moves it."""
    (tmp_path / "home").write_text("a file")
    with pytest.raises(EmbeddedBrokerError, match=r"home/broker.*cannot be written.*DRIFTLINE_HOME"):
        make_dir(Layout.of(tmp_path / "home").root, "the broker's state")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_home_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    tmp_path.chmod(0o500)
    with pytest.raises(EmbeddedBrokerError, match="Permission denied"):
        make_dir(tmp_path / "broker", "the broker's state")


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable that moves the folder; it is no other user of the lock."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(EmbeddedBrokerError, match=r"users cannot be locked: No locks available.*DRIFTLINE_HOME"):
        FileLock(tmp_path / "users").try_acquire()


def test_a_user_without_a_home_directory_hears_where_downloads_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a user id that has no entry."""

    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(fail))
    with pytest.raises(EmbeddedBrokerError, match="no home directory: set XDG_CACHE_HOME"):
        cache_root()


def test_a_private_jvm_has_no_options_of_the_users_own_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A garbage collector or a debug port for another program would keep Kafka from starting; paths are in UTF-8."""
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH"):
        monkeypatch.setenv(name, "-XX:+UseG1GC")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("KEPT", "1")
    environment = java_environment()
    assert "-XX:+UseG1GC" not in environment.values()
    assert environment["KEPT"] == "1"
    assert environment["LC_ALL"].endswith("UTF-8")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Kafka exits because all its log directories failed."""
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 5 << 20}))
    with pytest.raises(EmbeddedBrokerError, match=r"5 MiB free, at least 64 MiB"):
        make_dir(tmp_path, "the broker's state")


def test_two_spellings_of_a_home_are_one_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative, absolute, or through a link."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert Layout.of(Path("link")) == Layout.of(Path("real")) == Layout.of(tmp_path / "real")
