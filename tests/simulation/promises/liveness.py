"""Who was heard of when, and the end asked for: silence is counted in ticks that were read, never in seconds."""

from bisect import bisect_left

from driftline.schemas.records import Heartbeat, Ready, Tick

NO_HEARTBEAT = "no heartbeat"
"""How the reason of a removal for silence begins."""

REPLACED = "replaced"
"""How the reason of a removal begins when another incarnation of the same name is ready."""


class Liveness:
    """Offsets of ticks by term, of signs of life by member, and of requests to stop."""

    def __init__(self) -> None:
        self._ticks: dict[int, list[int]] = {}
        self._signs: dict[tuple[str, bytes], list[int]] = {}
        self._stops: list[int] = []

    def heard(self, event: Tick | Heartbeat | Ready, offset: int) -> None:
        """An event has landed; of ticks the first of each number counts."""
        match event:
            case Tick():
                ticks = self._ticks.setdefault(event.term, [])
                if event.sequence == len(ticks) + 1:
                    ticks.append(offset)
            case Heartbeat():
                self._signs.setdefault((event.member, event.incarnation), []).append(offset)
            case Ready():
                self._signs.setdefault((event.worker, event.incarnation), []).append(offset)

    def asked_to_stop(self, offset: int) -> None:
        """A command asks for the end of this run."""
        self._stops.append(offset)

    def stops_between(self, first: int, read: int) -> bool:
        """Whether the end is asked for from offset ``first`` up to offset ``read``."""
        return bisect_left(self._stops, first) < bisect_left(self._stops, read)

    def ticks_since_stop(self, term: int, read: int) -> int:
        """Return how many ticks of a term follow the first time that the end was asked for, up to offset ``read``."""
        ticks = self._ticks.get(term, [])
        return bisect_left(ticks, read) - bisect_left(ticks, self._stops[0]) if self._stops else 0

    def silence(self, member: tuple[str, bytes], term: int, read: int) -> int:
        """Return how many ticks of a term follow a member's last sign of life, up to offset ``read``."""
        signs = self._signs.get(member, [])
        before = bisect_left(signs, read)
        last = signs[before - 1] if before else -1
        ticks = self._ticks.get(term, [])
        return bisect_left(ticks, read) - bisect_left(ticks, last)
