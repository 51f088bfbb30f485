"""The nodes of this home's broker, as somebody sees them who disturbs them."""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.embedded.process import Launch
from driftline.broker.kafka import KafkaBroker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError, EmbeddedBrokerError
from driftline.launch.faults import CONTROLLER, LEADER

END_WAIT_S: Final = 30.0
"""How long a node that was asked to end may take, before it is killed."""

_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that may be disturbed.

    Attributes:
        embedded: the broker that they are.
        broker: its clients.
        run: whose ledger decides who is the leader.
        hit: name → the process of it that was told last to end. A later fault may hit a node that an earlier one has
            just started again, so names alone say nothing.
    """

    embedded: EmbeddedBroker
    broker: KafkaBroker
    run: str
    hit: dict[str, Launch] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Return what scripts call them."""
        return [f"broker-{number}" for number in self.embedded.nodes]

    def found(self, target: str) -> list[str]:
        """Return those that a target names now: the leader of the ledger, the controller, one by its number, or all."""
        if target == LEADER:
            return [] if (leader := self._leader()) is None else [f"broker-{leader}"]
        if target == CONTROLLER:
            return [f"broker-{one.node}" for one in self.embedded.status().nodes if one.controller]
        return [name for name in self.names if target in (name, "brokers", "everything")]

    def _leader(self) -> int | None:
        admin = self.broker.admin()
        try:
            return admin.leader(topic_name(self.run, Stream.LEDGER), 0)
        except BrokerError:  # nobody leads, so nobody can be told apart from the others
            return None
        finally:
            admin.close()

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Signal one; return whether it ran."""
        launch = self.embedded.signal(_number(name), number)
        if launch is not None and number in (signal.SIGKILL, signal.SIGTERM):
            self.hit[name] = launch
        return launch is not None

    def revive(self, names: Sequence[str]) -> None:
        """Start those that have ended, or that end soon because they were asked to.

        One that is hit again meanwhile is left to whoever undoes that.

        Raises:
            EmbeddedBrokerError: one does not start.
        """
        ours = {name: self.hit[name] for name in names}
        self._wait_for_ends(ours)
        while left := [name for name in names if self.hit[name] == ours[name]]:
            before = dict(self.hit)
            try:
                self._start(left)
            except EmbeddedBrokerError:
                if self.hit == before:
                    raise
            else:
                return

    def _wait_for_ends(self, ours: dict[str, Launch]) -> None:
        deadline_s = time.monotonic() + END_WAIT_S
        while lasting := [name for name in ours if self.embedded.running(_number(name)) == ours[name]]:
            if time.monotonic() >= deadline_s:
                for name in lasting:
                    self.embedded.signal(_number(name), signal.SIGKILL)
            time.sleep(_POLL_S)

    def _start(self, names: Sequence[str]) -> None:
        if len(names) == len(self.embedded.nodes):
            was_used = self.embedded.is_used
            self.embedded.start()  # together: a majority of them must be there before one of them is ready
            if not was_used:
                self.embedded.release()  # else it would not stop with the command that uses it
            return
        for name in names:
            self.embedded.revive(_number(name))


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
