"""The container engine: the one that runs, or one of our own that leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S, STOP_S = 60.0, 60.0


class NotRunnable(Exception):
    """The test cannot be run on this machine; says why and what would help."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How to talk to an engine.

    Attributes:
        environment: of every command that does.
        compose: the words before those for Compose.
    """

    environment: dict[str, str]
    compose: tuple[str, ...]

    def docker(self, *words: str, timeout_s: float = 120.0) -> str:
        """Run a command of docker and return what it printed."""
        return said(["docker", *words], self.environment, timeout_s)


def said(command: Sequence[str], environment: dict[str, str], timeout_s: float = 120.0) -> str:
    """Run a command and return what it printed.

    Raises:
        AssertionError: it failed; shows all that it printed.
    """
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def running_engine() -> Engine:
    """Return the engine of this machine.

    Raises:
        NotRunnable: there is none.
    """
    environment = dict(os.environ)
    if not _answers(environment):
        raise NotRunnable(
            "no container engine answers: start Docker; or, on Debian as root, without Docker and without a registry: "
            "make compose-test STAND_IN=1"
        )
    return Engine(environment, _compose(environment))


@contextmanager
def own_engine(images: Path) -> Iterator[Engine]:
    """Start an engine and stop it at the end, with all that it made but its images.

    It changes neither the firewall nor the forwarding of this machine: images are built on the machine's network, and
    containers talk among themselves and, through the engine's own proxy, with this machine.

    Args:
        images: folder in which it keeps images for the next time.

    Raises:
        NotRunnable: a program is missing, or it does not start.
    """
    check_programs("dockerd", "docker")
    before = links()
    with tempfile.TemporaryDirectory(prefix="driftline-engine-") as folder:
        environment = {**os.environ, "DOCKER_HOST": f"unix://{folder}/socket", "DOCKER_BUILDKIT": "0"}
        engine = Engine(environment, _compose(environment))
        process = _start(Path(folder), images, environment)
        try:
            yield engine
        finally:
            engine.docker("container", "prune", "--force")  # a build that was interrupted leaves one
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)
            for mounted in mounts(folder, str(images)):
                subprocess.run(["umount", mounted], check=True)
    left = links() - before
    assert not left, f"the engine has left network links behind: {', '.join(sorted(left))}"


def _start(folder: Path, images: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    words = [
        "dockerd", "--data-root", str(images), "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid"),
        "--host", environment["DOCKER_HOST"], "--bridge=none", "--iptables=false", "--ip6tables=false",
        "--ip-forward=false", "--ip-masq=false",
    ]  # fmt: skip
    log = images.parent / "engine.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    deadline_s = time.monotonic() + START_S
    while not _answers(environment):
        if process.poll() is not None or time.monotonic() > deadline_s:
            process.kill()
            process.wait()
            raise NotRunnable(f"dockerd does not start, see {log}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)
    return process


def links() -> set[str]:
    """Return the network links of this machine."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def mounts(*folders: str) -> list[str]:
    """Return what is mounted below folders, the innermost first; an engine leaves its network name space there."""
    found = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [path for path in reversed(found) if path.startswith(tuple(f"{folder}/" for folder in folders))]


def check_programs(*names: str) -> None:
    """Find programs.

    Raises:
        NotRunnable: names those that are missing, and the packages that bring them.
    """
    if missing := [name for name in names if shutil.which(name) is None]:
        raise NotRunnable(
            f"{', '.join(missing)} is missing; on Debian: apt-get install docker.io docker-compose debootstrap"
        )


def _answers(environment: dict[str, str]) -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], env=environment, capture_output=True, timeout=60, check=False)
    return done.returncode == 0


def _compose(environment: dict[str, str]) -> tuple[str, ...]:
    for words in (("docker", "compose"), ("docker-compose",)):
        if shutil.which(words[0]) is not None:
            done = subprocess.run([*words, "version"], env=environment, capture_output=True, timeout=60, check=False)
            if done.returncode == 0:
                return words
    raise NotRunnable("Compose is missing: neither `docker compose` nor `docker-compose` runs")
