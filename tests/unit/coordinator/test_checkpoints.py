"""Snapshots become official, and what they make needless goes, on the in-memory broker with the real state machines."""

from driftline.broker.port import Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.schemas.codec import decode
from driftline.schemas.records import Checkpoint, Snapshot
from tests.support.small_model import LAYOUT, small_run
from tests.support.still_run import StillRun


def records(run: StillRun, stream: Stream, partition: int = 0) -> list[Record]:
    """Return what a partition holds now."""
    reader = run.broker.reader()
    reader.read(topic_name("small", stream), partition, Start.BEGINNING)
    found: list[Record] = []
    while (event := reader.poll(0.0)) is not None:
        found += [event] if isinstance(event, Record) else []
    return found


def checkpoints(run: StillRun) -> list[Checkpoint]:
    """Return every checkpoint of the ledger."""
    decoded = [decode(record.value) for record in records(run, Stream.LEDGER)]
    return [record for record in decoded if isinstance(record, Checkpoint)]


def snapshot_versions(run: StillRun, partition: int) -> set[int]:
    """Return the versions whose snapshots compaction would keep."""
    newest = {record.key: record.value for record in records(run, Stream.SNAPSHOTS, partition)}
    left = [decode(value) for value in newest.values() if value is not None]
    return {record.version for record in left if isinstance(record, Snapshot)}


def test_a_checkpoint_names_every_tensor_where_it_is() -> None:
    run = small_run(steps=9, snapshot_every=4)
    run.play()
    found = checkpoints(run)
    assert [one.version for one in found] == [4, 8]
    for place in found[-1].places:
        record = records(run, Stream.SNAPSHOTS, LAYOUT.partition_of(place.shard))[place.offset]
        snapshot = decode(record.value)
        assert isinstance(snapshot, Snapshot)
        assert (snapshot.version, snapshot.shard, snapshot.tensor, snapshot.digest) == (
            8,
            place.shard,
            place.tensor,
            place.digest,
        )


def test_everything_is_kept_by_default() -> None:
    run = small_run(steps=9, snapshot_every=4)
    run.play()
    assert records(run, Stream.DELTAS)[0].offset == 0
    assert snapshot_versions(run, 0) == {0, 4, 8}


def test_behind_a_checkpoint_deltas_and_older_snapshots_go() -> None:
    """Tombstones stand for those of version 0 and of the checkpoint before; those of the last one are there."""
    run = small_run(steps=9, snapshot_every=4, retain="checkpoint")
    run.play()
    last = checkpoints(run)[-1]
    for partition in range(LAYOUT.partitions):
        assert records(run, Stream.DELTAS, partition)[0].offset >= last.floors[partition] > 0
        assert snapshot_versions(run, partition) == {8}


def test_memory_keeps_what_follows_the_last_checkpoint() -> None:
    """Servers, workers and evaluators alike."""
    run = small_run(steps=41, snapshot_every=4)
    run.play()
    for state in (run.servers["server-1"].state, run.workers["ada"].state, run.evaluator.state):
        assert state.version == 41
        assert set(state.versions) == {41}
        assert max(len(state.used_at), len(state.states), len(state.publish_points)) <= 4


def test_without_snapshots_there_is_no_checkpoint() -> None:
    run = small_run(steps=9, snapshot_every=0)
    run.play()
    assert checkpoints(run) == []
