"""How long the coordinator waits for receipts, and for whom."""

import time
from dataclasses import replace

import pytest

from driftline.broker.port import TopicSpec
from driftline.broker.topics import Stream
from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.known_ends import OWNER
from driftline.ledger.run_state import RunState
from driftline.runtime.errands import Errands
from driftline.schemas.effects import AskEnds
from driftline.schemas.records import NO_HASH, Contribution, Ready, StopRequest
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import CONFIG, G1, UUID, Ledger, server

PATIENCE = CONFIG.gone_after_ticks


class Waiting:
    """A coordinator's evidence: both workers are members, and the first has announced a contribution."""

    def __init__(self) -> None:
        self.state = RunState()
        for offset, value in enumerate(Ledger().start().values):
            self.state.read(offset, value)
        self.evidence = Evidence(self.state)
        self.ticks = 0
        offer = Contribution(
            run=UUID,
            group=G1,
            clock=1,
            base_version=0,
            base_head=self.state.heads[0],
            weight=1.0,
            loss=0.0,
            cursor=1,
            shards=4,
            root=NO_HASH,
        )
        self.evidence.add(offer, 0)

    def owners_report(self, *positions: int) -> None:
        """One server owns everything and has read so far."""
        event = server("server-1", (0, 1, 2, 3), {})
        placed = tuple(
            replace(one, position=position) for one, position in zip(event.partitions, positions, strict=True)
        )
        self.evidence.add(replace(event, version=0, partitions=placed), self.ticks)

    def tick(self, ends: tuple[int, ...] | None) -> None:
        """Read a tick; the ends of the deltas were looked up since the last one, or not."""
        if ends is not None:
            self.evidence.add_ends(dict(enumerate(ends)))
        self.ticks += 1
        self.evidence.add_tick(self.ticks)

    @property
    def reason(self) -> str:
        """Why the contribution is given up."""
        return self.evidence.incomplete((G1, 1), PATIENCE)


def test_a_contribution_whose_deltas_are_not_in_the_log_is_given_up() -> None:
    waiting = Waiting()
    for _ in range(PATIENCE):
        assert not waiting.reason
        waiting.owners_report(5, 5, 5, 5)
        waiting.tick((5, 5, 5, 5))
    assert waiting.reason == f"not whole after {PATIENCE} ticks: receipts of 4 shards are missing"


@pytest.mark.parametrize("positions", [(5, 5, 4, 5), (0, 0, 0, 0)])
def test_nothing_is_given_up_while_an_owner_is_behind_the_end(positions: tuple[int, ...]) -> None:
    """Its version keeps up, because the head waits for the very deltas that it has not read."""
    waiting = Waiting()
    for _ in range(3 * PATIENCE):
        waiting.owners_report(*positions)
        waiting.tick((5, 5, 5, 5))
    assert not waiting.reason
    assert waiting.evidence.lacking() == {(G1, 1)}


def test_what_was_read_long_ago_counts_for_one_tick_only() -> None:
    """Deltas may have come since, and be waiting to be read: the ends are looked up again."""
    waiting = Waiting()
    waiting.owners_report(5, 5, 5, 5)
    waiting.tick((5, 5, 5, 5))
    for _ in range(3 * PATIENCE):
        waiting.owners_report(5, 5, 5, 5)
        waiting.tick(None)
    assert not waiting.reason


def test_an_end_that_could_not_be_looked_up_counts_for_nothing() -> None:
    waiting = Waiting()
    for _ in range(3 * PATIENCE):
        waiting.owners_report(5, 5, 5, 5)
        waiting.evidence.add_ends({})
        waiting.evidence.add_ends({0: 5, 1: 5, 2: 5})
        waiting.tick(None)
    assert not waiting.reason


def test_an_owner_that_is_silent_counts_for_nothing() -> None:
    waiting = Waiting()
    waiting.owners_report(5, 5, 5, 5)
    for _ in range(3 * PATIENCE):
        waiting.tick((5, 5, 5, 5))
    assert waiting.evidence.served_ticks == CONFIG.gone_after_ticks - 1
    assert not waiting.reason


def test_every_question_is_answered() -> None:
    """With where the partitions end, or with nothing if there is no such topic."""
    broker = MemoryBroker()
    broker.admin().create([TopicSpec("there", 2)])
    broker.producer().send("there", 1, b"x")
    ends = Errands(broker)
    one, other = AskEnds(Stream.DELTAS), AskEnds(Stream.DELTAS, OWNER)
    for question, topic in ((one, "there"), (one, "nowhere"), (other, "there")):
        ends.ask_ends(question, topic)
    deadline_s = time.monotonic() + 30
    while len(ends.answers) < 3 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert list(ends.answers) == [(one, {0: 0, 1: 1}), (one, {}), (other, {0: 0, 1: 1})]
    ends.close()


def early() -> Evidence:
    """Return what is remembered of a member at tick 5 and of a request to stop at tick 7, before the start is read."""
    state = RunState()
    evidence = Evidence(state)
    evidence.add(Ready(run=UUID, worker="worker-3", incarnation=b"3" * 16, version=0), 5)
    evidence.add(StopRequest(run=UUID, sender="ada", reason="enough"), 7)
    return evidence


def started(evidence: Evidence) -> None:
    """Read the start."""
    for offset, value in enumerate(Ledger().start().values):
        evidence._state.read(offset, value)
    evidence.forget_settled()


def test_events_from_before_the_start_keep_their_tick() -> None:
    """Not at tick 0: a member would be gone, and a run that is to be stopped over, before their time."""
    evidence = early()
    started(evidence)
    assert (evidence.last_seen["worker-3", b"3" * 16], evidence.stop_tick) == (5, 7)


def test_silence_counts_from_a_new_term_on_also_for_events_from_before_the_start() -> None:
    """Its ticks begin at zero, so those of the term before would lie ahead of them."""
    evidence = early()
    evidence.forget_lives()
    started(evidence)
    assert (evidence.last_seen["worker-3", b"3" * 16], evidence.stop_tick) == (0, 0)
