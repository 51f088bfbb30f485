"""What a script may choose of a run, and what it hears when it chooses what cannot be."""

import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import optim

import driftline
from driftline.broker.port import TopicSpec
from driftline.broker.topics import run_topics
from driftline.errors import ConfigError, RunRefused, UsageError
from driftline.testing.memory import MemoryBroker
from tests.support.scripts import URL, House, house, line, step, together


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def test_a_script_takes_over_what_it_did_not_choose(home: House) -> None:
    """Mode, end and partitions of a run need not be repeated; what was chosen must agree, and so must the rule."""
    with home.optimizer(line(), mode="ssp", staleness=3, steps=50, partitions=2):
        with home.optimizer(line(), worker="bob"):
            assert set(home.ledger().totals.contributions) == set()
        with home.optimizer(line(), worker="bob", steps=50):
            pass
        with pytest.raises(RunRefused, match=r"steps: 60 here, 50 in the run\n  consistency.staleness: 1 here, 3"):
            home.optimizer(line(), worker="bob", mode="ssp", steps=60, staleness=1)
        other = line()
        with pytest.raises(RunRefused, match=r"lr: 0.2 here, 0.1 in the run"):
            home.optimizer(other, optim.SGD(other.parameters(), lr=0.2), worker="bob")
        with pytest.raises(RunRefused, match=r"weight: shape \(2, 2\) here, \(1, 3\) in the run"):
            home.optimizer(torch.nn.Linear(2, 2), worker="bob")


def test_topics_that_do_not_fit_are_refused_with_every_difference_before_a_script_joins() -> None:
    """As for a task: a run whose deltas Kafka deletes by and by could not be verified."""
    broker, model = MemoryBroker(), line()
    deltas, events = run_topics("lines", 2)[:2]
    short = TopicSpec(deltas.name, 2, {**deltas.config, "retention.ms": "60000"})
    broker.admin().create([short, replace(events, config={**events.config, "cleanup.policy": "compact"})])
    with pytest.raises(ConfigError) as refused:
        driftline.Optimizer(optim.SGD(model.parameters(), lr=0.1), model, URL, broker=broker)
    assert [problem.split(" is ")[0] for problem in refused.value.problems] == [
        "topic driftline.lines.deltas: retention.ms",
        "topic driftline.lines.events: cleanup.policy",
    ]
    assert sorted(broker.admin().topics()) == [deltas.name, events.name]


def test_two_scripts_that_start_at_once_agree_on_the_one_that_was_first(home: House) -> None:
    """Only one of them chose anything; whichever proposal becomes the run, both train."""

    def plain(name: str) -> int:
        model = line()
        with home.optimizer(model, worker=name) as opt:
            step(model, opt)
            return opt.version

    assert min(together(*(lambda name=name: plain(name) for name in ("ada", "bob", "cem")))) >= 1


def test_settings_that_cannot_be_are_refused_together(home: House) -> None:
    """By the names that a script writes."""
    with pytest.raises(ConfigError) as refused:
        home.optimizer(line(), workers=0, staleness=-1, mode="bsp")
    assert sorted(one.partition(":")[0] for one in refused.value.problems) == ["mode", "staleness", "workers"]
    with pytest.raises(ConfigError, match="stalenes: there is no such setting; did you mean staleness"):
        home.optimizer(line(), stalenes=1)
    with pytest.raises(ConfigError, match="nesterov: there is no such setting; there are workers, seed, "):
        home.optimizer(line(), nesterov=True)
    with pytest.raises(ConfigError, match="epochs: how many samples a script reads is not known here; give samples="):
        home.optimizer(line(), epochs=1)
    with pytest.raises(ConfigError, match=r"^warmup: 5 changes nothing while scripts set the learning rates"):
        home.optimizer(line(), schedule="script", warmup=5)
    with pytest.raises(ConfigError, match="local_steps: 4, but a script makes its own steps"):
        home.optimizer(line(), local_steps=4)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:9092/lines", "does not begin with kafka://"),
        ("kafka://localhost:9092", "names no run"),
        ("kafka://localhost:9092/a/b", "run name 'a/b' is not usable"),
        ("kafka://me:secret@localhost:9092/a", "names and passwords do not belong into it"),
        (None, "does not begin with kafka://"),
    ],
)
def test_addresses_that_cannot_be(home: House, url: str, said: str) -> None:
    """The message names the way out, and no password."""
    model = line()
    with pytest.raises(UsageError, match=said) as refused:
        driftline.Optimizer(optim.SGD(model.parameters(), lr=0.1), model, url, broker=home.broker)
    assert "secret" not in str(refused.value)


def test_a_name_from_the_environment(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument goes before it; it is no misspelling of DRIFTLINE_WORKERS."""
    monkeypatch.setenv("DRIFTLINE_WORKER", "eve")
    with home.optimizer(line(), worker=None) as opt:
        assert opt.worker == "eve"
        with home.optimizer(line(), worker="bob") as other:
            assert other.worker == "bob"


def test_arguments_in_the_wrong_place(home: House) -> None:
    """Say what to write instead."""
    model = line()
    with pytest.raises(UsageError, match="the first argument is a generator, not a torch optimizer; write driftline"):
        driftline.Optimizer(model.parameters(), model, "kafka://h:1/r", broker=home.broker)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the model is a generator, not a torch\.nn\.Module"):
        home.optimizer(model.parameters(), optim.SGD(model.parameters(), lr=0.1))  # type: ignore[arg-type]


def test_figures_of_a_script(home: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Those of a worker, under its name, until it leaves; the variable asks for them, too."""
    caplog.set_level("INFO", "driftline.telemetry")
    monkeypatch.setenv("DRIFTLINE_METRICS", "0")
    model = line()
    with home.optimizer(model, steps=9) as opt:
        step(model, opt)
        found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", caplog.text)
        assert found is not None
        port = int(found[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            said = answer.read().decode()
        assert 'driftline_clock{member="ada",role="worker",run="lines"} 1.0' in said
        assert 'driftline_version{member="ada",role="worker",run="lines"} 1.0' in said
        with pytest.raises(UsageError, match="another process listens there already; choose another port, or 0"):
            home.optimizer(line(), worker="bob", metrics=port)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
    with pytest.raises(ConfigError, match=r"^metrics: 'here' is no address to listen on"):
        home.optimizer(line(), metrics="here")
