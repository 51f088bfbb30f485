"""Pending evidence of snapshots: which partitions of which version are durable, until a checkpoint names them."""

from driftline.ledger.run_state import RunState
from driftline.rules import tensor_names
from driftline.schemas.records import SnapshotPlace, SnapshotReport

MAX_OPEN = 4
"""Versions of which some partitions are reported; the oldest gives way."""


class PendingSnapshots:
    """Reports on versions that the last checkpoint does not cover."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.written: dict[int, dict[int, SnapshotReport]] = {}
        self.failure = ""

    def _add_snapshots(self, event: SnapshotReport) -> None:
        if self._is_official(event.version) or not self._is_complete(event):
            return
        known = self.written.setdefault(event.version, {}).setdefault(event.partition, event)
        if known.head == event.head and _contents(known) != _contents(event):
            self.failure = self.failure or (
                f"partition {event.partition} of version {event.version} has two snapshots: those of {known.server} "
                f"and of {event.server} differ"
            )
        if known.head != self._state.heads.get(event.version, known.head):
            self.written[event.version][event.partition] = event
        while len(self.written) > MAX_OPEN:
            del self.written[min(self.written)]

    def durable(self) -> tuple[int, list[SnapshotReport]] | None:
        """Return the newest version whose partitions are all durable, with their reports in order."""
        config = self._state.config
        for version in sorted(self.written, reverse=True):
            head, reports = self._state.heads.get(version), self.written[version]
            sound = [report for _, report in sorted(reports.items()) if report.head == head]
            if version <= self._state.version and len(sound) == config.partitions:
                return version, sound
        return None

    def _is_complete(self, event: SnapshotReport) -> bool:
        """Whether a report names every tensor of its partition, of a version that the run takes snapshots of."""
        config, layout = self._state.config, self._state.layout
        if not config.is_snapshot_point(event.version):
            return False
        names = tensor_names(config.rule)
        wanted = [(shard, name) for shard in sorted(layout.shards_of(event.partition)) for name in names]
        return [(place.shard, place.tensor) for place in event.places] == wanted

    def _is_official(self, version: int) -> bool:
        checkpoint = self._state.checkpoint
        return checkpoint is not None and version <= checkpoint.version

    def _forget_snapshots(self) -> None:
        self.written = {version: reports for version, reports in self.written.items() if not self._is_official(version)}


def _contents(report: SnapshotReport) -> list[tuple[int, str, bytes]]:
    return [_content(place) for place in report.places]


def _content(place: SnapshotPlace) -> tuple[int, str, bytes]:
    return place.shard, place.tensor, place.digest
