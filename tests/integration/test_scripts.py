"""Scripts of users, and the examples, as processes of their own on a real Kafka."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.commands import Command, Commands

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

EXAMPLES = ROOT / "examples"

ENDLESS = """
import torch
import driftline
model = torch.nn.Linear(2, 1)
opt = driftline.Optimizer(torch.optim.SGD(model.parameters(), lr=0.01), model, "kafka:///RUN")
while True:
    opt.zero_grad()
    model(torch.ones(1, 2)).square().mean().backward()
    opt.step()
    print("version", opt.version, flush=True)
"""


class Scripts:
    """Starts scripts against one Kafka, beside a server, and ends those that are left."""

    def __init__(self, folder: Path, bootstrap_servers: str, run: str) -> None:
        self.run = run
        self.folder = folder
        self.commands = Commands(folder, bootstrap_servers)
        self.server = self.commands.start("server", run)
        self._environment = {**os.environ, "DRIFTLINE_BOOTSTRAP_SERVERS": bootstrap_servers, "HF_HUB_OFFLINE": "1"}
        self._all: list[Command] = []

    def start(self, script: Path, *words: str) -> Command:
        """Start one."""
        output = self.folder / f"script-{len(self._all)}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(script), *words],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                cwd=self.folder,
            )
        self._all.append(Command(process, output))
        return self._all[-1]

    def copy(self, text: str) -> Path:
        """Write a script for the run of this test."""
        script = self.folder / "script.py"
        script.write_text(text)
        return script

    def end(self) -> None:
        """Kill what is left."""
        for one in self._all:
            one.process.kill()
            one.process.wait()
        self.commands.end()


@pytest.fixture
def scripts(tmp_path: Path, kafka_bootstrap: str, unique_name: Callable[[str], str]) -> Iterator[Scripts]:
    """Nothing that a test starts outlives it."""
    one = Scripts(tmp_path, kafka_bootstrap, unique_name("script"))
    yield one
    one.end()


def last_number(command: Command, word: str) -> float:
    """Return what a script printed last behind a word."""
    found = re.findall(rf"^{word} ([0-9.]+)$", command.said(), re.MULTILINE)
    assert found, command.said()[-4000:]
    return float(found[-1])


def test_two_copies_of_the_plain_script_train_together(scripts: Scripts) -> None:
    """Each makes its own loop's steps, every version is made of both, and both end with one model."""
    script = scripts.copy((EXAMPLES / "plain_loop.py").read_text().replace("plain-loop", scripts.run))
    both = [scripts.start(script), scripts.start(script)]
    assert [one.code(400) for one in both] == [0, 0], both[0].said() + both[1].said()
    first, second = (last_number(one, "accuracy") for one in both)
    print(f"accuracy {first} and {second}")  # noqa: T201 - seen with pytest -s
    assert first == second
    assert first > 0.85
    seen = json.loads(scripts.commands.run("status", scripts.run, "--json").stdout)
    assert seen["version"] == 135
    assert [(one["contributions"], one["name"][-2:]) for one in seen["workers"]] == [(135, "-1"), (135, "-2")]
    assert seen["state"] == "running"


def test_a_script_that_is_killed_comes_back_as_the_same_worker(scripts: Scripts) -> None:
    """After SIGTERM, too; Ctrl-C ends it within seconds, many of them on a busy machine, and nothing is undelivered."""
    script = scripts.copy(ENDLESS.replace("RUN", scripts.run))
    first = scripts.start(script)
    reached = int(first.until(r"version (\d{2,})", 300)[1])
    first.process.send_signal(signal.SIGTERM)
    assert first.code(20) == 128 + signal.SIGTERM
    assert "SIGTERM: the script ends here, and leaves its run" in first.said()
    assert "not ended" not in first.said()
    second = scripts.start(script)
    joined = second.until(r"worker (\S+-1) of \S+ .*at version (\d+)", 300)
    assert int(joined[2]) >= reached
    assert f"worker {joined[1]} of" in first.said()
    second.until(rf"version {int(joined[2]) + 3}\b", 100)
    second.process.send_signal(signal.SIGINT)
    asked_s = time.monotonic()
    assert second.code(30) in {130, -signal.SIGINT}
    assert time.monotonic() - asked_s < 20
    assert "KeyboardInterrupt" in second.said()
    assert "has not acknowledged" not in second.said()
    seen = json.loads(scripts.commands.run("status", scripts.run, "--json").stdout)
    assert {one["name"] for one in seen["workers"]} == {joined[1]}


@pytest.mark.parametrize(
    ("example", "word", "least", "most"),
    [
        ("language_model", "loss", 0.0, 3.6),  # 4.9 at the start
        ("tabular", "accuracy", 0.75, 1.0),
        ("lightning_module", "accuracy", 0.85, 1.0),
        ("hf_trainer", "accuracy", 0.8, 1.0),
    ],
)
def test_an_example_trains(scripts: Scripts, example: str, word: str, least: float, most: float) -> None:
    """To what it is there to show, without a warning of ours."""
    script = scripts.start(EXAMPLES / f"{example}.py", f"kafka:///{scripts.run}")
    assert script.code(500) == 0, script.said()[-4000:]
    assert least < last_number(script, word) <= most, script.said()[-2000:]
    assert " warning " not in script.said()
