"""Runs that leave learning rates to their scripts: rates ride in contributions, and their weighted mean counts."""

import dataclasses
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import optim
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR

from driftline.config.settings import load_run_settings
from driftline.errors import ConfigError, RunRefused, UsageError
from driftline.ledger.contradictions import in_version
from driftline.ledger.policy import MOST_RATE, mean_rates, rates_problem
from driftline.schemas.records import GroupId, Use, Version
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.schedule import Schedule
from driftline.training.task.computing import Computing
from driftline.training.task.loading import load_task
from tests.simulation.promises.plain_rules import mean_rate
from tests.support.scripts import House, house, line, loss_of, step, together
from tests.support.small_ledger import LAYOUT

WEIGHTS = st.floats(2.0**-53, 2.0**53)
RATES = st.floats(0.0, MOST_RATE)


def use(weight: float, *rates: float, kind: str = "delta") -> Use:
    """Return a contribution that asks for rates."""
    return Use(
        group=GroupId(2, 0),
        clock=1,
        kind=kind,
        base_version=0,
        staleness=0,
        weight=weight,
        loss=0.0,
        cursor=1,
        coefficient=1.0,
        root=bytes(32),
        learning_rates=rates,
    )


# -- the mean --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(WEIGHTS, RATES), min_size=1, max_size=6))
@example([(1.0, 1e-3), (3.0, 2e-3)])
def test_it_is_the_weighted_mean(asked: list[tuple[float, float]]) -> None:
    """Up to the rounding of float64, within what was asked for, and the same as written down a second time."""
    (mean,) = mean_rates([use(weight, rate) for weight, rate in asked], 1)
    rates = [rate for _, rate in asked]
    total = sum((Fraction(weight) for weight, _ in asked), Fraction())
    exact = sum((Fraction(weight) * Fraction(rate) for weight, rate in asked), Fraction()) / total
    assert abs(Fraction(mean) - exact) <= Fraction(max(rates)) / 2**48
    assert min(rates) <= mean <= max(rates)
    assert mean == mean_rate(asked)


@given(st.lists(WEIGHTS, min_size=1, max_size=6), RATES)
def test_what_all_ask_for_is_what_they_get(weights: list[float], rate: float) -> None:
    """To the bit: a run whose scripts agree has the bits of a run whose own schedule says the same."""
    assert mean_rates([use(weight, rate, rate) for weight in weights], 2) == (rate, rate)


def test_only_what_counts_is_asked() -> None:
    """Skips and contributions of no weight ask for nothing; a version without any steps nothing."""
    assert mean_rates([use(0.0, kind="skip"), use(2.0, 0.5), use(0.0, 0.25)], 1) == (0.5,)
    assert mean_rates([use(0.0, kind="skip")], 3) == (0.0, 0.0, 0.0)
    assert mean_rates([], 1) == (0.0,)


@pytest.mark.parametrize(
    ("rates", "problem"),
    [
        ((), "it brings 0 learning rates for 2 parameter groups"),
        ((0.1, 0.1, 0.1), "it brings 3 learning rates for 2 parameter groups"),
        ((0.1, -0.1), r"its learning rate -0.1 is no number from 0 to 9e\+15"),
        ((math.nan, 0.1), "its learning rate nan is no number"),
        ((0.1, math.inf), "its learning rate inf is no number"),
        ((0.0, MOST_RATE), "^$"),
    ],
)
def test_rates_that_can_count(rates: tuple[float, ...], problem: str) -> None:
    """One finite number a parameter group."""
    assert re.search(problem, rates_problem(rates, 2))


# -- what readers of the ledger hold a version to --------------------------------------------------------------------

RULE = RuleConfig(name="sgd", groups=({"lr": 0.1},))
BY_SCRIPTS = RunConfig(name="told", workers=2, steps=3, rule=RULE, schedule=Schedule(set_by="script"))
BY_RUN = dataclasses.replace(BY_SCRIPTS, schedule=Schedule())


def version(*uses: Use, rates: tuple[float, ...]) -> Version:
    """Return version 1."""
    return Version(
        term=1,
        parent=bytes(32),
        version=1,
        uses=uses,
        learning_rates=rates,
        rho=1.0,
        positions=(-1,) * 4,
        publish=True,
        states=(),
        buffers_of=-1,
    )


@pytest.mark.parametrize(
    ("config", "record", "contradiction"),
    [
        (BY_SCRIPTS, version(use(1.0, 0.1), use(3.0, 0.5), rates=(0.4,)), ""),
        (BY_SCRIPTS, version(use(1.0, 0.1), use(3.0, 0.5), rates=(0.3,)), "the mean of its contributions is (0.4,)"),
        (BY_SCRIPTS, version(use(1.0), rates=(0.1,)), "it brings 0 learning rates for 1 parameter groups"),
        (BY_SCRIPTS, version(use(0.0, kind="skip"), rates=(0.0,)), ""),
        (BY_SCRIPTS, version(use(0.0, 0.1), rates=(0.0,)), ""),
        (BY_SCRIPTS, version(use(1.0, math.nan), rates=(0.1,)), "its learning rate nan"),
        (BY_RUN, version(use(1.0), rates=(0.1,)), ""),
        (BY_RUN, version(use(1.0, 0.1), rates=(0.1,)), "it brings 1 learning rates for 0 parameter groups"),
    ],
)
def test_a_version_follows_from_its_contributions(config: RunConfig, record: Version, contradiction: str) -> None:
    """Every reader of the ledger computes the mean again."""
    found = in_version(record, config, LAYOUT)
    assert contradiction in found
    assert bool(contradiction) == bool(found)


# -- scripts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def test_a_scheduler_counts(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """A script with a scheduler trains as it does alone, and nothing is said or written into its groups."""
    model, plain = line(), line()
    alone = optim.SGD(plain.parameters(), lr=0.1)
    in_run = home.optimizer(model, schedule="script")
    schedulers = [ExponentialLR(one, 0.5) for one in (alone, in_run)]
    for _ in range(4):
        assert in_run.param_groups[0]["lr"] == alone.param_groups[0]["lr"]
        step(plain, alone)
        step(model, in_run)
        for one in schedulers:
            one.step()
    in_run.close()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    versions = home.ledger().versions
    assert [versions[one].learning_rates for one in sorted(versions)] == [(0.1,), (0.05,), (0.025,), (0.0125,)]
    assert not [one for one in caplog.records if "param_groups" in one.getMessage()]


def test_the_mean_of_two_scripts(home: House) -> None:
    """Each weighs as much as its gradient does."""

    def script(name: str, factor: float, weight: int, **settings: Any) -> None:
        model = line()
        with home.optimizer(model, worker=name, steps=3, workers=2, **settings) as opt:
            scheduler = LambdaLR(opt, lambda _: factor)
            while not opt.done:
                step(model, opt, weight=weight)
                scheduler.step()

    together(lambda: script("ada", 1.0, 1, schedule="script"), lambda: script("bob", 3.0, 3, schedule="script"))
    versions = home.ledger().versions
    for one in versions.values():
        assert sorted(use.learning_rates[0] for use in one.uses) == pytest.approx([0.1, 0.3])
        assert one.learning_rates == pytest.approx(((0.1 + 3 * 0.3) / 4,))


def test_a_run_that_exists_decides(home: House) -> None:
    """A script that does not say takes it over; one that says otherwise is refused with the difference."""
    first, second = line(), line()
    with home.optimizer(first, schedule="script") as opt:
        with home.optimizer(second, worker="bob") as other:
            other.param_groups[0]["lr"] = 0.0
            together(lambda: step(first, opt), lambda: step(second, other))
        with pytest.raises(RunRefused, match=r"schedule\.set_by: 'run' here, 'script' in the run"):
            home.optimizer(line(), worker="cem", schedule="run")
    assert home.ledger().versions[1].learning_rates == (0.05,)


def test_rates_of_groups_and_tensors(home: House) -> None:
    """Each parameter group has its own, also as a tensor, which is float32."""
    model = line()
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias], "lr": torch.tensor(0.25)}]
    inner = optim.SGD(groups, lr=0.1)
    with home.optimizer(model, inner, schedule="script") as opt:
        step(model, opt)
        opt.param_groups[0]["lr"] = 0.0
        before = model.weight.detach().clone(), model.bias.detach().clone()
        step(model, opt)
    assert [one.learning_rates for one in home.ledger().versions.values()] == [(0.1, 0.25), (0.0, 0.25)]
    assert torch.equal(model.weight, before[0])
    assert not torch.equal(model.bias, before[1])


@pytest.mark.parametrize("rate", [math.nan, -0.1, math.inf])
def test_a_rate_that_cannot_be(home: House, rate: float) -> None:
    """Is refused where it was set; the step is not spent."""
    model = line()
    with home.optimizer(model, schedule="script") as opt:
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        opt.param_groups[0]["lr"] = rate
        with pytest.raises(UsageError, match=r"param_groups\[0\]\['lr'\] is .*, no number from 0 to 9e\+15"):
            opt.step()
        opt.param_groups[0]["lr"] = 0.1
        opt.step()
        assert opt.version == 1


def test_state_dict_brings_the_rates_back(home: House) -> None:
    """A script that saves its optimizer and scheduler goes on with the rates that it had."""
    model = line()
    with home.optimizer(model, schedule="script") as opt:
        opt.param_groups[0]["lr"] = 0.025
        saved = opt.state_dict()
        opt.param_groups[0]["lr"] = 0.1
        opt.load_state_dict(saved)
        assert opt.param_groups[0]["lr"] == 0.025


# -- settings --------------------------------------------------------------------------------------------------------


def test_a_schedule_beside_it_is_refused() -> None:
    """Who sets the rates has one answer; all problems at once."""
    with pytest.raises(ConfigError) as refused:
        load_run_settings(
            "lines", {"schedule": "script", "warmup": 5, "decay": "cosine", "final_rate": 0.1}, environment={}
        )
    assert [one.partition(" changes")[0] for one in refused.value.problems] == [
        "warmup: 5",
        "decay: 'cosine'",
        "final_rate: 0.1",
    ]
    with pytest.raises(ConfigError, match="schedule: 'scripts' is not known; did you mean script"):
        load_run_settings("lines", {"schedule": "scripts"}, environment={})


def test_a_task_sets_no_rates() -> None:
    """A task has no scheduler that steps; also in a run that scripts have made."""
    settings = load_run_settings("digits", {"schedule": "script"}, environment={})
    with pytest.raises(ConfigError, match="schedule: 'script' is for scripts with a loop of their own"):
        Computing(load_task("digits", {}), settings)
