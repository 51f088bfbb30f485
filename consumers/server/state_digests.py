"""Digests of publish points that one server has to report: each only when the parameters that it proves are durable.

The coordinator goes on, or ends the run, once the digests of a publish point are complete. So they must not be
reported before the parameters are on every in-sync replica: their server may die in between, and then no server
publishes the last version of a run that has ended.
"""

from collections.abc import Iterable, Iterator

from driftline.schemas.records import ShardDigest

Place = tuple[int, int]
"""Version and shard."""


class StateDigests:
    """Digests that the ledger does not hold yet, of the shards of one server."""

    def __init__(self) -> None:
        self._reported: dict[Place, ShardDigest] = {}
        self._awaited: dict[Place, ShardDigest] = {}

    def add(self, digest: ShardDigest, *, published: bool) -> None:
        """Report a digest, at once or when its parameters are durable.

        Args:
            digest: of one shard at a publish point.
            published: whether its parameters are on their way to the log; those of an older publish point are not.
        """
        place = digest.version, digest.shard
        if place not in self._reported:
            (self._awaited if published else self._reported)[place] = digest

    def on_durable(self, place: Place) -> bool:
        """Parameters are durable; return whether that was the last that their version waited for."""
        digest = self._awaited.pop(place, None)
        if digest is None:
            return False
        self._reported[place] = digest
        return not any(version == place[0] for version, _ in self._awaited)

    def drop(self, places: Iterable[Place]) -> None:
        """Forget digests: the ledger holds them, or their shard is another server's now."""
        for place in list(places):
            self._reported.pop(place, None)
            self._awaited.pop(place, None)

    def __iter__(self) -> Iterator[Place]:
        """Every place whose digest is kept."""
        return iter([*self._reported, *self._awaited])

    def __len__(self) -> int:
        """How many may be reported."""
        return len(self._reported)

    def reported(self) -> tuple[ShardDigest, ...]:
        """Return what may be reported."""
        return tuple(self._reported.values())
