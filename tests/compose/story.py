"""What is checked of the containers, step by step; each step says what it saw."""

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tests.compose.description import described
from tests.compose.stack import Stack, until

RUN, ACCURACY = "digits", 0.95
LONG, LONG_STEPS = "long", 1_000_000
"""A run that is scaled, stopped and continued, and that no machine comes to the end of meanwhile."""

DATA = "/var/lib/kafka/data"

ROLES = ("evaluator", "worker", "server")

UP_S, NEWS_S, END_S = 300.0, 240.0, 900.0

_BATCHES = """
import torch
from torch.utils.data import DataLoader
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return torch.full((1 << 20,), float(index))
print(sum(len(batch) for batch in DataLoader(Samples(), batch_size=16, num_workers=4)))
"""
"""Batches of 64 MiB, two under way for each of four processes."""


def tell(stack: Stack) -> None:
    """Run the whole story."""
    trained(stack)
    proved(stack)
    stack.variables |= {"DRIFTLINE_RUN": LONG, "DRIFTLINE_STEPS": str(LONG_STEPS)}
    joined(stack)
    scaled(stack)
    a_worker_on_this_machine_joins(stack)
    stopped(stack)
    continued(stack)
    shared_memory(stack)
    volume_of_another_user(stack)


@contextmanager
def step(what: str) -> Iterator[Callable[[str], None]]:
    """Say what a step does, what it saw, and how long it took."""
    click.echo(f"{what} …")
    began_s = time.monotonic()
    seen: list[str] = []
    yield seen.append
    click.echo(f"  {'; '.join(seen)} ({time.monotonic() - began_s:.1f} s)")


def contributions(stack: Stack) -> dict[str, int]:
    """Return worker → contributions so far."""
    return {worker["name"]: worker["contributions"] for worker in stack.status(LONG)["workers"]}


def all_contribute(stack: Stack, *names: str) -> None:
    """Wait until workers have more contributions than now."""
    before = contributions(stack)

    def more() -> bool:
        now = contributions(stack)
        return all(now.get(name, 0) > before.get(name, 0) for name in names)

    until(f"{', '.join(names)} contribute", more, NEWS_S)


def trained(stack: Stack) -> None:
    """From nothing to the end of a run, as the files say it."""
    with step("docker compose up: Kafka, the run, two servers, two workers, an evaluator") as say:
        stack.compose("up", "--detach", "--no-build", timeout_s=UP_S)
        [kafka], [made] = stack.containers("kafka"), stack.containers("create-run")
        assert (kafka.health, made.code) == ("healthy", 0)
        say("Kafka is healthy, the run is made, and everything is up")
    with step("the run comes to its end") as say:
        until("all roles have ended", lambda: all(one.code is not None for one in stack.containers(*ROLES)), END_S)
        check_codes(stack, 5)
        seen = stack.status(RUN)
        assert seen["state"] == "ended"
        assert seen["metrics_version"] == seen["version"] == seen["steps"]
        assert seen["metrics"]["accuracy"] >= ACCURACY
        accuracy = f"accuracy {seen['metrics']['accuracy']:.4f} on held-out data"
        say(f"version {seen['version']}, {accuracy}; five exit codes of 0")


def check_codes(stack: Stack, count: int) -> None:
    """See that roles have ended, and well."""
    codes = {one.name: one.code for one in stack.containers(*ROLES)}
    assert len(codes) == count
    assert set(codes.values()) == {0}, f"137 would be a kill after the grace time: {codes}"


def proved(stack: Stack) -> None:
    """In a container, from the log alone."""
    with step("docker compose run driftline verify: the log is intact and gives the recorded bits") as say:
        printed = stack.compose("run", "--rm", "driftline", "verify", RUN, "--json", timeout_s=END_S)
        [found] = re.findall(r'"equal": (\d+)', printed)
        assert int(found) > 0
        say(f"{found} comparisons equal")


def joined(stack: Stack) -> None:
    """Another run, which the variables of a user name; containers are made again for it."""
    with step(f"DRIFTLINE_RUN={LONG} docker compose up: another run, with members of the same names") as say:
        stack.compose("up", "--detach", "--no-build", timeout_s=UP_S)
        until("the run has versions", lambda: version_of(stack, LONG) > 0, NEWS_S)
        all_contribute(stack, "worker-1", "worker-2")
        until("both servers live", lambda: live_servers(stack) == {"server-1", "server-2"}, NEWS_S)
        seen = stack.status(LONG)
        assert {one["name"] for one in seen["workers"]} == {"worker-1", "worker-2"}
        say(f"version {seen['version']}")


def live_servers(stack: Stack) -> set[str]:
    """Return the servers that live and own a part of the model; the one that made the run has left."""
    return {one["name"] for one in stack.status(LONG)["servers"] if one["state"] == "live" and one["shards"]}


def version_of(stack: Stack, run: str) -> int:
    """Return a run's newest version; 0 before there is a run."""
    found = re.search(r'"version": (\d+)', stack.asked("status", run, "--json"))
    return int(found[1]) if found else 0


def scaled(stack: Stack) -> None:
    """Two workers more, in the run."""
    with step("docker compose up --scale worker=4, in the run") as say:
        before = {one.name for one in stack.containers("worker")}
        stack.compose("up", "--detach", "--no-build", "--no-recreate", "--scale", "worker=4", timeout_s=UP_S)
        assert len(stack.containers("worker")) == 4
        assert before < {one.name for one in stack.containers("worker")}, "the two first ones work on"
        all_contribute(stack, "worker-1", "worker-2", "worker-3", "worker-4")
        say(f"all four contribute at version {version_of(stack, LONG)}")


def a_worker_on_this_machine_joins(stack: Stack) -> None:
    """Through the listener for this machine; then it leaves."""
    with step(f"a worker on this machine joins through localhost:{stack.port}") as say:
        worker = stack.worker_on_host("digits", "--run", LONG, "--name", "on-this-machine")
        try:
            all_contribute(stack, "on-this-machine")
            worker.send_signal(signal.SIGTERM)
            left_s = time.monotonic()
            assert worker.wait(60) == 0
            left_s = time.monotonic() - left_s
        finally:
            worker.kill()
            printed, _ = worker.communicate()
            click.echo("".join(f"    {line}\n" for line in printed.splitlines()[-3:]), nl=False)
        say(f"{contributions(stack)['on-this-machine']} contributions; it left {left_s:.1f} s after SIGTERM")


def stopped(stack: Stack) -> None:
    """SIGTERM to the roles; then to Kafka."""
    services: dict[str, Any] = described()["services"]
    grace_s = float(services["worker"]["stop_grace_period"].removesuffix("s"))
    with step("docker compose stop: SIGTERM to evaluator, workers and servers, in the run") as say:
        assert stack.status(LONG)["state"] == "running"
        assert all(one.code is None for one in stack.containers(*ROLES))
        began_s = time.monotonic()
        stack.compose("stop", *ROLES)
        took_s = time.monotonic() - began_s
        check_codes(stack, 7)
        assert took_s < grace_s, "the engine waited for a role"
        assert stack.status(LONG)["state"] == "running", "no command has ended the run"
        say(f"exit codes of 0, all within {took_s:.1f} s")
    with step("docker compose down: the containers are removed, the volume is kept") as say:
        stack.compose("stop", "kafka")
        [kafka] = stack.containers("kafka")
        assert kafka.code in {0, 143}, kafka
        stack.compose("down")
        assert stack.containers() == []
        say(f"Kafka ended with {kafka.code}")


def continued(stack: Stack) -> None:
    """A new start on the same volume: the runs are there, and the one that has not ended goes on."""
    with step("docker compose up on the same volume") as say:
        stack.compose("up", "--detach", "--no-build", timeout_s=UP_S)
        before = stack.status(LONG)
        assert before["version"] > 0
        assert stack.status(RUN)["state"] == "ended"
        all_contribute(stack, "worker-1", "worker-2")
        after = stack.status(LONG)
        assert after["version"] > before["version"]
        assert {one["name"] for one in after["workers"]} == {one["name"] for one in before["workers"]}
        say(f"the run went on from version {before['version']}, with workers of the same names")


def shared_memory(stack: Stack) -> None:
    """A DataLoader with four processes, and what becomes of it in a container without the line in the file."""
    with step("a DataLoader with four processes in a worker's container") as say:
        words = ("run", "--rm", "--no-deps", "--entrypoint", "python", "worker", "-c", _BATCHES)
        assert stack.compose(*words).split()[-1] == "64"
        image = described(stack.variables)["services"]["worker"]["image"]
        small = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", _BATCHES]
        done = subprocess.run(
            small, env=stack.engine.environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode != 0
        assert "shared memory" in done.stderr or "Bus error" in done.stderr, done.stderr[-2000:]
        say("it works; with the 64 MB that a container has by default it is a bus error")


def volume_of_another_user(stack: Stack) -> None:
    """A folder of this machine as Kafka's volume: root's, as Docker makes it, and then given to Kafka's user."""
    with step("Kafka's data in a folder of this machine that is root's") as say:
        stack.compose("down", "--volumes")
        with tempfile.TemporaryDirectory(prefix="driftline-data-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            stack.variables["KAFKA_DATA"] = name
            as_root = ("run", "--rm", "--no-deps", "--user", "root", "--entrypoint")
            stack.compose("up", "--detach", "--no-build", "--no-deps", "kafka")
            until("Kafka gives up", lambda: [one.code for one in stack.containers("kafka")] == [1], 60)
            printed = stack.compose("logs", "--no-color", "kafka")
            way_out = re.search(r"sudo chown (\d+)", printed)
            assert way_out is not None, printed
            stack.compose(*as_root, "chown", "kafka", way_out[1], DATA)
            stack.compose("up", "--detach", "--no-build", "--no-deps", "kafka")
            until("Kafka is healthy", lambda: [one.health for one in stack.containers("kafka")] == ["healthy"], UP_S)
            stack.compose("stop", "kafka")
            stack.compose(*as_root, "find", "kafka", DATA, "-mindepth", "1", "-delete")
        del stack.variables["KAFKA_DATA"]
        say(f"refused with the way out, chown {way_out[1]}; with that it starts")
