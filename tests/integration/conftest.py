"""Runs that several tests look at: each is trained once for the whole test command."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TRAIN_TIMEOUT_S = 150


@dataclass(frozen=True)
class Trained:
    """A finished `driftline train`: its run, its status object and what it printed."""

    run: str
    bootstrap_servers: str
    status: dict[str, Any]
    stderr: str


def train(bootstrap_servers: str, run: str, home: Path, *options: str) -> Trained:
    """Run `driftline train digits` to its end."""
    command = [sys.executable, "-m", "driftline", "train", "digits", "--run", run, "--json"]
    command += ["--bootstrap-servers", bootstrap_servers, "--home", str(home), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TRAIN_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-4000:]}"
    return Trained(run, bootstrap_servers, json.loads(done.stdout.splitlines()[-1]), done.stderr)


@pytest.fixture(scope="session")
def two_servers(
    kafka_bootstrap: str, unique_name: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    """Three workers and two servers, 60 versions."""
    home = tmp_path_factory.mktemp("two-servers")
    return train(kafka_bootstrap, unique_name("two"), home, "--servers", "2", "--steps", "60")


@pytest.fixture(scope="session")
def one_server(
    kafka_bootstrap: str, unique_name: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    """The same run again, but with a single server."""
    home = tmp_path_factory.mktemp("one-server")
    return train(kafka_bootstrap, unique_name("one"), home, "--servers", "1", "--steps", "60")
