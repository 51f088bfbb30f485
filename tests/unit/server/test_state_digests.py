"""What a server says it has published is durable, or a run could end with a last version that cannot be loaded."""

from driftline.broker.topics import Stream
from driftline.consumers.server.state_digests import StateDigests
from driftline.schemas.codec import decode, encode
from driftline.schemas.effects import Send
from driftline.schemas.records import ServerState, ShardDigest, StopRequest
from tests.support.stage import Core, Stage

PATIENCE_TICKS = 20


def digest(version: int, shard: int) -> ShardDigest:
    """Return a digest of a shard at a version."""
    return ShardDigest(shard=shard, version=version, state=b"s" * 32, masters=b"m" * 32)


class UnacknowledgedStage(Stage):
    """Kafka takes parameters in, and does not say so until it is let."""

    def __init__(self) -> None:
        self.withheld: list[tuple[Core, Send]] = []
        self.withholds = False
        super().__init__()

    def acknowledge(self, core: Core, send: Send) -> None:
        """Withhold what is said of parameters."""
        if self.withholds and send.stream is Stream.PARAMETERS:
            self.withheld.append((core, send))
        else:
            super().acknowledge(core, send)

    def digests_told(self, version: int) -> bool:
        """Whether the server has told a digest of a version."""
        events = [decode(one.value) for one in self.log[Stream.EVENTS, 0]]
        return any(one.version == version for event in events if isinstance(event, ServerState) for one in event.shards)

    def ended_at(self) -> int | None:
        """Return the version at which the run has ended."""
        ended = self.worker.state.ended
        return None if ended is None else ended.version

    def ask_for_the_end(self) -> None:
        """Stop the run, and give it time to end."""
        start = self.worker.state.start
        self.append(Stream.EVENTS, 0, bytes(encode(StopRequest(run=start.run, sender="ada", reason="enough"))))
        self.wait()

    def wait(self) -> None:
        """Let time pass."""
        for _ in range(PATIENCE_TICKS):
            self.tick()
            self.work()


def test_no_run_ends_before_its_last_parameters_are_durable() -> None:
    """They were handed over, but their server may die before they are in the log: then it is not the end yet."""
    stage = UnacknowledgedStage()
    stage.play(1)
    stage.withholds = True
    stage.play(2)
    stage.ask_for_the_end()
    assert stage.withheld
    assert not stage.digests_told(2)
    assert stage.ended_at() is None
    stage.withholds = False
    for core, send in stage.withheld:
        stage.acknowledge(core, send)
    stage.wait()
    assert stage.digests_told(2)
    assert stage.ended_at() == 2


def test_a_version_is_reported_when_the_last_of_its_shards_is_durable() -> None:
    """One report a version, not one a shard."""
    digests = StateDigests()
    for shard in range(2):
        digests.add(digest(5, shard), published=True)
    assert digests.reported() == ()
    assert not digests.on_durable((5, 0))
    assert digests.on_durable((5, 1))
    assert not digests.on_durable((5, 1)), "the same parameters, sent again"
    assert digests.reported() == (digest(5, 0), digest(5, 1))


def test_an_older_publish_point_is_reported_at_once() -> None:
    """Its parameters are not sent any more: a newer one has them."""
    digests = StateDigests()
    digests.add(digest(4, 0), published=False)
    assert digests.reported() == (digest(4, 0),)


def test_what_the_ledger_holds_is_dropped_wherever_it_waits() -> None:
    """Another owner was faster."""
    digests = StateDigests()
    digests.add(digest(4, 0), published=False)
    digests.add(digest(5, 0), published=True)
    digests.drop([place for place in digests if place[0] <= 5])
    assert list(digests) == []
    assert not digests.on_durable((5, 0))
