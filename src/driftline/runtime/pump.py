"""Threads that poll readers, so that a process with several of them has one loop.

Memory of a process: the inflow's bound, plus for each pump one record in hand and what its reader fetches ahead.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from driftline.broker.port import Assigned, GroupReader, Position, PositionLost, Reader, Revoked
from driftline.errors import BrokerError, BrokerUnreachable, TopicMissing
from driftline.runtime.inflow import Event, Failed, Inflow, NotStarted, Pumped, Started, Stopped

_log = logging.getLogger(__name__)

_SLICE_S = 0.02
"""Longest time until a command is served; a record that is there is never waited for."""
_PATIENCE_S = 1.0
"""How long a group's pump waits before a full inflow until it pauses its partitions, far below any poll interval.
Pausing throws away what was fetched ahead, so a short stall is better sat out."""
_MAX_COMMANDS = 10_000


class _Pump:
    """A thread that owns one reader. It begins to poll at ``start`` and ends with ``close`` or an error."""

    def __init__(self, name: str, inflow: Inflow) -> None:
        self.name = name
        self._inflow = inflow
        self._backlog: deque[Event] = deque()
        self._commands: deque[Callable[[], Event | None]] = deque()
        self._closing = threading.Event()
        self._is_cut_off = False
        self._thread = threading.Thread(target=self._run, name=f"pump {name}", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> bool:
        """Stop polling and close the reader on its own thread; False if that takes longer. Idempotent.

        What is in the inflow stays there; nothing of this pump is added afterwards.
        """
        self._closing.set()
        if self._thread.ident is None:
            self._release()
            return True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("pump %s did not stop within %g s", self.name, timeout_s)
        return not self._thread.is_alive()

    def _command(self, command: Callable[[], Event | None]) -> None:
        # A deque is enough: appending and popping are atomic, and a command is served within a slice. The bound is not
        # met except by a caller that repeats itself while a look-up waits for the broker.
        if len(self._commands) >= _MAX_COMMANDS:
            raise BrokerError(f"pump {self.name} has {_MAX_COMMANDS} commands waiting: the broker does not answer")
        self._commands.append(command)

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop that takes from the inflow must hear of it
            self._backlog.append(Failed(error, over=True))
            while self._backlog and not self._closing.is_set():
                self._deliver(_SLICE_S)
        finally:
            self._release()

    def _step(self) -> None:
        self._serve_commands()
        if self._deliver(_SLICE_S):
            self._add(self._poll(_SLICE_S))
            self._deliver(0.0)
        else:
            self._stalled()

    def _serve_commands(self) -> None:
        while self._commands:
            try:
                self._add(self._survive(self._commands[0]))
            except BrokerUnreachable as error:
                if not self._is_cut_off:
                    _log.warning("pump %s: %s; it tries again until a broker answers", self.name, error)
                self._is_cut_off = True
                return
            self._is_cut_off = False
            self._commands.popleft()

    def _survive(self, act: Callable[[], Event | None]) -> Event | None:
        """Do something that may fail for one partition only, which the others survive."""
        try:
            return act()
        except PositionLost as error:
            return Failed(error, over=False)

    def _add(self, event: Event | None) -> None:
        if event is not None:
            self._backlog.append(event)

    def _deliver(self, timeout_s: float) -> bool:
        """Move the backlog into the inflow; False if it is full."""
        while self._backlog:
            if not self._inflow.put(Pumped(self.name, self._backlog[0]), timeout_s):
                return False
            self._backlog.popleft()
        return True

    def _stalled(self) -> None:
        """Do what must be done while the inflow is full; called about once a slice."""

    def _poll(self, timeout_s: float) -> Event | None:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError


class ReaderPump(_Pump):
    """Pumps a ``Reader``. Each ``read`` is answered by ``Started`` or ``NotStarted``, each ``stop`` by ``Stopped``.

    What comes before the answer is from an earlier reading of the partition.
    """

    def __init__(self, name: str, reader: Reader, inflow: Inflow) -> None:
        super().__init__(name, inflow)
        self._reader = reader

    def read(self, topic: str, partition: int, position: Position) -> None:
        """Have the pump start, or restart, reading a partition."""

        def read() -> Event:
            try:
                return Started(topic, partition, self._reader.read(topic, partition, position))
            except (PositionLost, TopicMissing) as error:
                return NotStarted(topic, partition, error)

        self._command(read)

    def stop(self, topic: str, partition: int) -> None:
        """Have the pump stop reading a partition."""

        def stop() -> Event:
            self._reader.stop(topic, partition)
            return Stopped(topic, partition)

        self._command(stop)

    def _survive(self, act: Callable[[], Event | None]) -> Event | None:
        try:
            return super()._survive(act)
        except TopicMissing as error:
            return Failed(error, over=False)

    def _poll(self, timeout_s: float) -> Event | None:
        return self._survive(lambda: self._reader.poll(timeout_s))

    def _release(self) -> None:
        self._reader.close()


class GroupPump(_Pump):
    """Pumps a ``GroupReader``; goes on polling while the inflow is full, so that the group does not expel it.

    Args:
        name: of the pump.
        reader: to be pumped.
        inflow: where to.
        held: deliver nothing of a partition that was assigned until ``resume``. A pause that
            is asked for after the assignment is read would come too late.
    """

    def __init__(self, name: str, reader: GroupReader, inflow: Inflow, *, held: bool = False) -> None:
        super().__init__(name, inflow)
        self._reader = reader
        self._held = held
        self._owned: set[int] = set()
        self._on_hold: set[int] = set()
        self._stalled_slices = 0
        self._holding = False

    def resume(self, partitions: Sequence[int], begin: Sequence[int] = ()) -> None:
        """Have the pump deliver these partitions, from the offsets ``begin`` on if there are any."""
        self._command(lambda: self._resume(partitions, begin))

    def _resume(self, partitions: Sequence[int], begin: Sequence[int]) -> None:
        for partition, offset in zip(partitions, begin, strict=False):
            self._reader.seek(partition, offset)
        self._on_hold -= set(partitions)
        if not self._holding:
            self._reader.resume(sorted(self._owned.intersection(partitions)))

    def _step(self) -> None:
        if self._holding and self._inflow.half_empty():
            self._holding = False
            self._reader.resume(sorted(self._owned - self._on_hold))
        super()._step()

    def _deliver(self, timeout_s: float) -> bool:
        delivered = super()._deliver(timeout_s)
        if delivered:
            self._stalled_slices = 0
        return delivered

    def _stalled(self) -> None:
        self._stalled_slices += 1
        if not self._holding and self._stalled_slices * _SLICE_S >= _PATIENCE_S:
            self._holding = True
            self._reader.pause(sorted(self._owned))
        if self._holding:
            # Paused, so nothing comes but changes of the assignment: the backlog stays short.
            self._add(self._poll(0.0))

    def _poll(self, timeout_s: float) -> Event | None:
        event = self._survive(lambda: self._reader.poll(timeout_s))
        match event:
            case Assigned(partitions):
                self._owned |= set(partitions)
                if self._held:
                    self._on_hold |= set(partitions)
                if self._holding or self._held:
                    self._reader.pause(partitions)
            case Revoked(partitions):
                self._owned -= set(partitions)
                self._on_hold -= set(partitions)
            case _:
                pass
        return event

    def _release(self) -> None:
        self._reader.close()
