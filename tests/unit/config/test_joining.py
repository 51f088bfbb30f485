"""Who joins a run need not repeat its settings; what is said must be the run's; and topics must hold what is needed."""

import dataclasses

import pytest

from driftline.broker.port import TopicSpec
from driftline.broker.topic_check import create_command, topic_differences
from driftline.broker.topics import run_topics
from driftline.config.freezing import adopted_settings, freeze, outer_rule
from driftline.config.run_settings import RunSettings
from driftline.config.settings import load_run_settings
from driftline.errors import ConfigError, RunRefused
from driftline.ledger.entering.reading import read_config, read_ledger
from driftline.ledger.entering.same_run import check_same_run
from driftline.runs.commands import create_run
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule
from driftline.testing.memory import MemoryBroker
from driftline.training.worker.topics import RunTopics
from tests.support.stage import CONFIG, OFFER

RULE = RuleConfig(name="sgd", groups=({"lr": 0.3, "momentum": 0.5, "nesterov": 1.0},))
THEIRS = RunConfig(
    name="r",
    workers=5,
    steps=70,
    seed=9,
    partitions=2,
    gone_after_ticks=20,
    consistency=Consistency(mode="ssp", staleness=4, max_age_s=2.5),
    schedule=Schedule(warmup=3, decay="linear", final=0.25),
    local=LocalWork(clip_norm=1.5, steps=3),
    rule=RULE,
)


def said(**words: object) -> RunSettings:
    """Settings as they were chosen, and nothing from the environment."""
    return load_run_settings("r", words, environment={})


def test_settings_that_were_not_chosen_are_those_of_the_run() -> None:
    """All of it: two workers with the same words then offer the same run."""
    settings = adopted_settings(said(), THEIRS)
    frozen = freeze(settings, outer_rule(settings), samples=0, batch_size=0)
    theirs = dataclasses.replace(THEIRS, rule=outer_rule(settings))
    assert frozen == theirs
    assert (settings.outer_lr, settings.outer_momentum) == (0.3, 0.5)


def test_a_chosen_setting_that_the_run_has_too_is_accepted() -> None:
    """Although it contradicts the defaults of what was not said."""
    same = said(mode="ssp", staleness=4, seed=9, warmup=3, final_rate=0.25, local_steps=3, max_age=2.5)
    assert adopted_settings(same, THEIRS) == adopted_settings(said(), THEIRS)


def test_chosen_settings_that_the_run_has_otherwise_are_refused_all_at_once() -> None:
    """As a difference; what was not said is not in it."""
    with pytest.raises(RunRefused) as refused:
        adopted_settings(said(mode="async", seed=1, decay="cosine", local_steps=2), THEIRS)
    lines = str(refused.value).splitlines()
    assert lines[0] == "run 'r' exists with other settings:"
    assert lines[-1].endswith("or delete it: driftline runs delete r")
    assert sorted(line.strip() for line in lines[1:-1]) == [
        "consistency.mode: 'async' here, 'ssp' in the run",
        "local.steps: 2 here, 3 in the run",
        "schedule.decay: 'cosine' here, 'linear' in the run",
        "seed: 1 here, 9 in the run",
    ]


def test_a_bound_without_its_mode_is_compared_alone() -> None:
    """With that of the run: a bound on staleness alone chooses no other mode."""
    assert adopted_settings(said(staleness=4), THEIRS) == adopted_settings(said(), THEIRS)
    with pytest.raises(RunRefused, match=r"consistency\.staleness: 2 here, 4 in the run") as refused:
        adopted_settings(said(staleness=2), THEIRS)
    assert len(str(refused.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ({}, "sync"),
        ({"staleness": 0}, "sync"),
        ({"staleness": 3}, "ssp"),
        ({"buffer": 2}, "buffered"),
        ({"buffer": 2, "ahead": 1}, "buffered"),
        ({"ahead": 1}, "async"),
    ],
)
def test_a_new_run_has_the_mode_that_its_bounds_can_be_in(words: dict[str, int], mode: str) -> None:
    """Where none is chosen."""
    assert said(**words).consistency.mode == mode


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"mode": "sync", "staleness": 1}, "staleness: 1 contradicts mode sync"),
        ({"mode": "sync", "buffer": 2}, "buffer: 2 contradicts mode sync"),
        ({"staleness": 1, "buffer": 2}, "staleness: 1 contradicts mode sync"),
        ({"staleness": "one"}, "staleness: 'one' is not a whole number"),
    ],
)
def test_bounds_that_contradict_each_other_or_a_mode_are_refused(words: dict[str, object], problem: str) -> None:
    """Nothing is guessed from them."""
    with pytest.raises(ConfigError, match=problem):
        said(**words)


def test_epochs_are_compared_once_the_data_is_known() -> None:
    """How many versions they make before that is not known."""
    settings = adopted_settings(said(epochs=2), THEIRS)
    assert (settings.steps, settings.epochs) == (None, 2)


def test_the_settings_of_a_run_are_read_from_its_ledger() -> None:
    """As soon as a server has accepted it."""
    broker = MemoryBroker()
    assert read_config(broker, CONFIG.name) is None
    broker.admin().create(run_topics(CONFIG.name, CONFIG.partitions))
    assert read_config(broker, CONFIG.name) is None
    create_run(broker, CONFIG.name, OFFER, "ada", timeout_s=60)
    assert read_config(broker, CONFIG.name) == CONFIG


def test_a_removed_worker_never_begins_a_deleted_run_again() -> None:
    """Whether nothing is there, or another run has begun under the name."""
    broker = MemoryBroker()
    topics = run_topics(CONFIG.name, CONFIG.partitions)
    broker.admin().create(topics)
    create_run(broker, CONFIG.name, OFFER, "ada", timeout_s=60)
    start = read_ledger(broker, CONFIG.name).start
    check_same_run(broker, CONFIG.name, start)
    broker.admin().delete([spec.name for spec in topics])
    with pytest.raises(RunRefused, match="was deleted, there is none of that name"):
        check_same_run(broker, CONFIG.name, start)
    broker.admin().create(topics)
    create_run(broker, CONFIG.name, OFFER, "bob", timeout_s=60)
    with pytest.raises(RunRefused, match=r"was deleted, another .* has begun under its name"):
        check_same_run(broker, CONFIG.name, start)


# -- topics ----------------------------------------------------------------------------------------------------------

SPECS = run_topics("r", 4)
FITTING = {spec.name: dict(spec.config) for spec in SPECS}
COUNTS = {spec.name: spec.partitions for spec in SPECS}


def changed(stream: str, **settings: str) -> dict[str, dict[str, str]]:
    """Return fitting settings with some of one topic changed."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return FITTING | {f"driftline.r.{stream}": FITTING[f"driftline.r.{stream}"] | named}


def test_topics_as_we_make_them_fit() -> None:
    """So do larger limits and longer retention."""
    assert topic_differences(SPECS, COUNTS, FITTING) == []
    assert topic_differences(SPECS, {}, {}) == []
    for roomy in (
        changed("events", retention_ms="-1", max_message_bytes="20000000"),
        changed("parameters", retention_bytes="-1"),
    ):
        assert topic_differences(SPECS, COUNTS, roomy) == []


UNFIT = [
    ("deltas", "max.message.bytes", "500000", "1000128 or more"),
    ("deltas", "retention.ms", "604800000", "-1 (no limit)"),
    ("deltas", "retention.bytes", "1073741824", "-1 (no limit)"),
    ("ledger", "cleanup.policy", "compact", "delete"),
    ("snapshots", "cleanup.policy", "compact,delete", "compact"),
    ("events", "retention.ms", "60000", "604800000 or more"),
    ("events", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ("parameters", "unclean.leader.election.enable", "true", "false"),
]


@pytest.mark.parametrize(("stream", "setting", "value", "needed"), UNFIT)
def test_each_unfit_setting_is_named_with_the_command_that_fixes_it(
    stream: str, setting: str, value: str, needed: str
) -> None:
    """What it is, what it must be, what to type."""
    (found,) = topic_differences(SPECS, COUNTS, changed(stream, **{setting.replace(".", "_"): value}))
    text = str(found)
    assert text.startswith(f"topic driftline.r.{stream}: {setting} is {value}, needed is {needed}; kafka-configs.sh ")
    assert f"--entity-name driftline.r.{stream} --add-config {setting}=" in text


def test_topics_that_an_administrator_made_are_used_or_refused_with_every_difference() -> None:
    """Nothing is made beside topics that do not fit."""
    broker = MemoryBroker()
    deltas, events = SPECS[0], SPECS[1]
    broker.admin().create([TopicSpec(deltas.name, 6, {"retention.ms": "1", "max.message.bytes": "9"})])
    with pytest.raises(ConfigError) as refused:
        RunTopics(broker, said(partitions=4))
    assert len(refused.value.problems) == 3
    assert "number of partitions is 6, needed is 4; give the run --partitions 6" in refused.value.problems[0]
    assert list(broker.admin().topics()) == [deltas.name]
    with pytest.raises(ConfigError) as refused:
        RunTopics(broker, said())  # its partitions are not chosen: those of the topic are taken over
    assert len(refused.value.problems) == 2
    broker.admin().delete([deltas.name])
    broker.admin().create([events])
    assert RunTopics(broker, said()).create() == "4 topics made, 1 used as they were found"
    assert RunTopics(broker, said()).create() == "its 5 topics are there and fit"


def test_the_command_that_makes_a_topic_says_all_that_is_needed() -> None:
    """For an administrator who makes them beforehand."""
    command = create_command(SPECS[0], "kafka:9092")
    assert command.startswith("kafka-topics.sh --bootstrap-server kafka:9092 --create --topic driftline.r.deltas ")
    assert "--partitions 4" in command
    for name, value in SPECS[0].config.items():
        assert f"--config {name}={value}" in command
