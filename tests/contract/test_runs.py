"""Whole runs through every layer but processes and torch, on both brokers."""

import threading
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from driftline.broker.port import EndReached
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.errors import TopicMissing
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_ledger, read_present
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.runtime.inflow import Pumped
from driftline.runtime.shell import BATCH, Shell
from driftline.schemas.effects import CaughtUp, Effect, Input, Read
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency
from driftline.testing import Outcome, run_in_process
from tests.contract.support import DEADLINE_S, Lab
from tests.support.state_difference import state_difference

LEARNING_RATE = 0.1
FloatArray = npt.NDArray[np.float32]


def sgd_offer(run: str, workers: int, steps: int, elements: int = 10, bounds: Consistency | None = None) -> Offer:
    layout = Layout((Segment("weight", (), (elements,), "float32", "parameter", 0, 0),), 4)
    rule = RuleConfig(name="sgd", groups=({"lr": LEARNING_RATE},))
    config = RunConfig(
        name=run, workers=workers, steps=steps, rule=rule, consistency=bounds or Consistency(), tick_interval_s=0.05
    )
    return Offer(config=config, layout=layout, masters=np.zeros(elements, np.float32))


def ones(_: str, model: Model, cursor: int) -> Gradient:
    return Gradient(flat=np.ones_like(model.flat), presence=[True], weight=32.0, loss=1.0, cursor=cursor)


def noise(worker: str, model: Model, cursor: int) -> Gradient:
    rng = np.random.default_rng([*worker.encode(), cursor])
    flat = rng.standard_normal(model.flat.size).astype(np.float32)
    return Gradient(flat=flat, presence=[True], weight=float(rng.integers(1, 9)), loss=1.0, cursor=cursor)


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_gradient_of_one_from_every_worker_moves_a_weight_by_exactly_the_learning_rate(
    lab: Lab, workers: int
) -> None:
    outcome = run_in_process(lab.broker, sgd_offer(lab.unique("ones"), workers, steps=1), names(workers), ones)
    assert weights(outcome).tobytes() == np.full(10, -np.float32(LEARNING_RATE), np.float32).tobytes()
    assert failures(outcome) == set()


@pytest.mark.parametrize(("workers", "servers"), [(2, 2), (4, 3)])
def test_a_step_does_not_change_with_the_number_of_workers_or_servers(lab: Lab, workers: int, servers: int) -> None:
    one = run_in_process(lab.broker, sgd_offer(lab.unique("ones"), 1, steps=5), names(1), ones)
    many = run_in_process(
        lab.broker, sgd_offer(lab.unique("ones"), workers, steps=5), names(workers), ones, servers=servers
    )
    assert many.state.states[5].state == one.state.states[5].state


def test_servers_that_come_later_fold_what_was_before_them_to_the_same_bits(lab: Lab) -> None:
    """All that is left of the first servers is the log; the new ones are handed deltas before they know the ledger."""
    plain = run_in_process(lab.broker, sgd_offer(lab.unique("stayed"), 2, steps=30), names(2), noise)
    offer = sgd_offer(lab.unique("relieved"), 2, steps=30)
    relieved = run_in_process(lab.broker, offer, names(2), noise, servers=2, restart_servers_at=20)
    assert failures(relieved) == set()
    assert relieved.state.states[30].state == plain.state.states[30].state


def test_servers_that_begin_at_a_checkpoint_go_on_to_the_same_bits(lab: Lab) -> None:
    """They have not read what is before it, and the ledger they leave behind is one that a full reader believes."""
    plain = run_in_process(lab.broker, sgd_offer(lab.unique("stayed"), 2, steps=14), names(2), noise)
    offer = sgd_offer(lab.unique("entered"), 2, steps=14)
    offer = replace(offer, config=replace(offer.config, snapshot_every=3))
    entered = run_in_process(lab.broker, offer, names(2), noise, servers=2, restart_servers_at=8)
    assert failures(entered) == set()
    assert entered.state.states[14].state == plain.state.states[14].state
    search = enter_ledger(lab.broker, offer.config.name)
    assert search.entry is not None
    assert search.entry.record.version >= 6
    whole, present = (read(lab.broker, offer.config.name) for read in (read_ledger, read_present))
    for state in (whole, present):
        state.forget_before(search.entry.record.version)
    assert state_difference(whole, present) == ""


def test_a_worker_with_another_model_or_other_settings_is_refused_with_the_difference(lab: Lab) -> None:
    run = lab.unique("taken")
    run_in_process(lab.broker, sgd_offer(run, 1, steps=2), ["first"], ones)
    outcome = run_in_process(lab.broker, sgd_offer(run, 1, steps=3, elements=11), ["second"], ones)
    refusal = outcome.finishes["second"].failure
    assert "another model" in refusal
    assert "(11,)" in refusal
    assert "(10,)" in refusal
    assert "steps: 3 here, 2 in the run" in refusal


def test_a_gradient_that_is_not_finite_is_refused_and_the_others_go_on(lab: Lab) -> None:
    def poisoned(worker: str, model: Model, cursor: int) -> Gradient:
        gradient = ones(worker, model, cursor)
        if worker == "worker-1" and cursor == 2:
            gradient.flat[3] = np.nan
        return gradient

    outcome = run_in_process(lab.broker, sgd_offer(lab.unique("poisoned"), 3, steps=5), names(3), poisoned)
    assert outcome.state.totals.rejections == {"worker-1": 1}
    assert np.isfinite(weights(outcome)).all()
    assert failures(outcome) == set()
    assert outcome.state.totals.contributions == {"worker-0": 5, "worker-1": 4, "worker-2": 5}


RUBBISH = (b"hello", b"", b"\0\0\0\0", b'{"term": 1}', b"\xc3\x01" + b"\x07" * 40, None)


def test_rubbish_on_every_topic_is_counted_and_changes_nothing(lab: Lab) -> None:
    clean = run_in_process(lab.broker, sgd_offer(lab.unique("clean"), 2, steps=5), names(2), ones)
    offer = sgd_offer(lab.unique("rubbish"), 2, steps=5)
    admin, producer = lab.broker.admin(), lab.producer()
    topics = run_topics(offer.config.name, offer.config.partitions)
    admin.create(topics)
    admin.close()
    for spec in topics:
        for partition in range(spec.partitions):
            for value in RUBBISH:
                # A compacted topic takes no record without a key; Kafka refuses it before a reader sees it.
                producer.send(spec.name, partition, value, key=b"rubbish")
    assert producer.flush(20) == 0
    outcome = run_in_process(lab.broker, offer, names(2), ones, servers=2)
    assert failures(outcome) == set()
    assert outcome.state.states[5].state == clean.state.states[5].state
    assert outcome.state.totals.undecodable == len(RUBBISH)
    assert outcome.undecodable >= len(RUBBISH) * offer.config.partitions


def names(workers: int) -> list[str]:
    return [f"worker-{index}" for index in range(workers)]


def weights(outcome: Outcome) -> FloatArray:
    assert outcome.model is not None
    return outcome.model.flat


def failures(outcome: Outcome) -> set[str]:
    return {finish.failure for finish in outcome.finishes.values() if finish.failure}


BOUNDS = {
    "ssp": Consistency(mode="ssp", staleness=2),
    "ssp-drop": Consistency(mode="ssp", staleness=1, drop_slowest=1),
    "buffered": Consistency(mode="buffered", buffer=2, ahead=1),
    "async": Consistency(mode="async", buffer=1, weighting="inverse"),
    "damp": Consistency(mode="async", buffer=1, max_staleness=1, on_stale="damp"),
}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_every_mode_reaches_its_last_version_and_keeps_its_bounds(lab: Lab, bounds: Consistency) -> None:
    offer = sgd_offer(lab.unique("mode"), 3, steps=12, bounds=bounds)
    outcome = run_in_process(lab.broker, offer, names(3), ones, servers=2, pauses={"worker-2": 0.05})
    assert failures(outcome) == set()
    assert outcome.state.version == 12
    assert set(outcome.state.states) == outcome.state.publish_points
    staleness = outcome.state.totals.staleness
    assert max(staleness) <= (bounds.tolerated if bounds.tolerated is not None and bounds.on_stale == "reject" else 99)
    assert np.isfinite(weights(outcome)).all()


def test_ssp_without_staleness_is_sync_to_the_bit(lab: Lab) -> None:
    plain = run_in_process(lab.broker, sgd_offer(lab.unique("sync"), 3, steps=6), names(3), noise, servers=2)
    bounds = Consistency(mode="ssp", staleness=0)
    ssp = run_in_process(lab.broker, sgd_offer(lab.unique("ssp0"), 3, steps=6, bounds=bounds), names(3), noise)
    assert ssp.state.states[6].state == plain.state.states[6].state


@pytest.mark.parametrize("staleness", [1, 2, 4])
def test_a_slow_worker_is_left_behind_by_exactly_the_staleness(lab: Lab, staleness: int) -> None:
    spread: list[int] = []

    def watched(worker: str, model: Model, cursor: int) -> Gradient:
        paces[worker] = cursor
        if len(paces) == 3:
            spread.append(max(paces.values()) - min(paces.values()))
        return ones(worker, model, cursor)

    paces: dict[str, int] = {}
    bounds = Consistency(mode="ssp", staleness=staleness)
    offer = sgd_offer(lab.unique("slow"), 3, steps=10, bounds=bounds)
    outcome = run_in_process(lab.broker, offer, names(3), watched, pauses={"worker-0": 0.2})
    assert failures(outcome) == set()
    # A start at pace low + s, where the slow worker's own last start was at low - 1: the bound, and it is reached.
    assert max(spread) == staleness + 1
    assert max(outcome.state.totals.staleness) <= 2 * staleness


def test_an_idle_head_is_published(lab: Lab) -> None:
    """In async a version may be applied without being sent; the last one always is, and workers wait for none."""
    offer = sgd_offer(lab.unique("idle"), 2, steps=15, bounds=BOUNDS["async"])
    outcome = run_in_process(lab.broker, offer, names(2), ones)
    assert max(outcome.state.publish_points) == 15
    assert outcome.model is not None
    assert outcome.model.version == 15


def test_a_reading_that_is_restarted_hears_nothing_of_the_reading_before(lab: Lab) -> None:
    """A stale end of partition once made a server believe that version 0 was missing."""
    run = lab.unique("again")
    admin = lab.broker.admin()
    admin.create(run_topics(run, 1))
    admin.close()
    core = _Restarting()
    shell = Shell(lab.broker, run, core, "reader")
    while core.ends != [0]:
        shell.step(0.001)
    for offset in (7, 8):
        shell._inflow.put(Pumped("reader", EndReached(topic_name(run, Stream.LEDGER), 0, offset)))
    shell.step(0.001)
    shell.close()
    assert core.ends == [0, 7]
    assert shell.counters["records_of_earlier_readings"] == 1


def test_nothing_is_lost_of_what_arrives_faster_than_it_is_taken(lab: Lab) -> None:
    """A batch that was full once took one item too many and dropped it: a server never reached the newest version."""
    core = _Listening()
    shell = Shell(lab.broker, lab.unique("flood"), core, "reader")
    offsets = list(range(3 * BATCH))
    for offset in offsets:
        shell._inflow.put(Pumped("reader", EndReached(topic_name("flood", Stream.EVENTS), 0, offset)))
    for _ in range(6):
        shell.step(0.001)
    shell.close()
    assert core.ends == offsets


def test_a_run_whose_topic_is_deleted_ends_with_its_name(lab: Lab) -> None:
    """Waiting for a topic that is gone would be waiting for ever."""
    run = lab.unique("deleted")
    admin = lab.admin()
    admin.create(run_topics(run, 1))
    core = _Restarting()
    shell = Shell(lab.broker, run, core, "reader")
    lab.closers.append(shell.close)
    while not core.ends:
        shell.step(0.001)
    admin.delete([topic_name(run, Stream.LEDGER)])
    stop = threading.Event()
    giving_up = threading.Timer(DEADLINE_S, stop.set)
    giving_up.start()
    with pytest.raises(TopicMissing, match=f"{topic_name(run, Stream.LEDGER)}.*'{run}'.*was it deleted"):
        shell.run(stop)
    giving_up.cancel()


class _Restarting:
    """Reads the ledger, and reads it again at every end but the first."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def begin(self) -> list[Effect]:
        return [Read(Stream.LEDGER, 0, 0)]

    def on(self, event: Input) -> list[Effect]:
        if not isinstance(event, CaughtUp):
            return []
        self.ends.append(event.offset)
        return [Read(Stream.LEDGER, 0, 0)] if len(self.ends) > 1 else []


class _Listening:
    """Notes every end that it is told of."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def begin(self) -> list[Effect]:
        return []

    def on(self, event: Input) -> list[Effect]:
        if isinstance(event, CaughtUp):
            self.ends.append(event.offset)
        return []
