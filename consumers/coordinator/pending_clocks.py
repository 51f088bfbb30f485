"""Pending evidence of clocks: contributions and skips, the receipts of their deltas, and which of them are whole."""

from collections import Counter

from driftline.ledger.event_check import shorten
from driftline.ledger.policy import rates_problem, weight_problem
from driftline.ledger.run_state import RunState
from driftline.schemas.digests import contribution_root
from driftline.schemas.records import Contribution, GroupId, Receipt, SampleRange, ShardReceipt, Skip
from driftline.schemas.records.sample_range import overlap

CLOCKS_AHEAD = 64
"""Clocks beyond the settled one that are remembered a group; far above any K, far below any memory."""

MAX_STRANGE_CLOCKS = 4096
"""Clocks that are remembered of groups whose `Join` we have yet to read, all of them together."""

Clock = tuple[GroupId, int]


class PendingClocks:
    """What groups have spent and the ledger has not settled."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.offers: dict[Clock, Contribution | Skip] = {}
        self.receipts: dict[Clock, dict[int, ShardReceipt]] = {}
        self.refusals: dict[Clock, str] = {}
        self._rooted: dict[Clock, bool] = {}
        self.offered_at: dict[Clock, int] = {}
        self.served_ticks = 0
        self._whole: dict[GroupId, list[int]] = {}
        self._in_question: set[GroupId] = set()
        self.paces_are_settled = False
        """Whether no event since the last look lets a version close."""
        self.counters: Counter[str] = Counter()

    # -- events --------------------------------------------------------------------------------------------------------

    def _add_offer(self, event: Contribution | Skip) -> None:
        if self._is_wanted(event.group, event.clock):
            self.offers.setdefault((event.group, event.clock), event)
            self.offered_at.setdefault((event.group, event.clock), self.served_ticks)
            self._look_again(event.group, event.clock)

    def _add_receipt(self, event: Receipt) -> None:
        if not self._is_wanted(event.group, event.clock):
            return
        clock = (event.group, event.clock)
        if event.refusal:
            self.refusals.setdefault(clock, shorten(event.refusal))
        self._rooted.pop(clock, None)
        self.receipts.setdefault(clock, {}).update({receipt.shard: receipt for receipt in event.shards})
        self._look_again(event.group, event.clock)

    def _is_wanted(self, group_id: GroupId, clock: int) -> bool:
        if self._state.is_settled(group_id, clock):
            self.counters["late_events"] += 1
            return False
        group = self._state.groups.get(group_id)
        if clock > (group.settled_clock if group else 0) + CLOCKS_AHEAD or (group is None and self._is_full()):
            self.counters["clocks_too_far_ahead"] += 1
            return False
        return True

    def _is_full(self) -> bool:
        """Whether so much is remembered that clocks of unknown groups must be among it, and no few."""
        most = CLOCKS_AHEAD * len(self._state.groups) + MAX_STRANGE_CLOCKS
        return max(len(self.offers), len(self.receipts)) >= most

    def _add_served_tick(self) -> None:
        """Count a tick during which everything that is in the log was read."""
        self.served_ticks += 1
        self._doubt_all()

    # -- what need not be looked at again ----------------------------------------------------------------------------

    def _look_again(self, group_id: GroupId, clock: int) -> None:
        """There is new evidence of a clock: if it is whole now, or refused, a version may close.

        A clock behind a pending one counts, too: it shows that its group has come to its bound.
        """
        self._in_question.add(group_id)
        known = self._whole.pop(group_id, None)
        if group_id not in self._state.groups:
            return
        its_clock = (group_id, clock)
        if self.pending(group_id) != known or self.is_whole(its_clock) or self.refusal(its_clock):
            self.paces_are_settled = False

    def _doubt_all(self) -> None:
        """The ledger went on, or time did: whatever was found before may be different now."""
        self._in_question = set(self._state.groups)
        self._whole.clear()
        self.paces_are_settled = False

    def in_question(self) -> list[GroupId]:
        """Return the live groups, in their order, whose next clock may have to be rejected, as far as is known."""
        return sorted(group_id for group_id in self._in_question if group_id in self._state.groups)

    def is_sound(self, group_id: GroupId) -> None:
        """Note that a group's next clock was looked at and need not be rejected, as far as is known by now."""
        self._in_question.discard(group_id)

    # -- queries -------------------------------------------------------------------------------------------------------

    def refusal(self, clock: Clock) -> str:
        """Why the contribution of this clock cannot be used, or nothing."""
        offer = self.offers.get(clock)
        if offer is None:
            return ""
        if self._state.heads.get(offer.base_version) != offer.base_head:
            return f"its base is no version {offer.base_version} of this ledger"
        unleased = self._state.leases.problem(offer.group, offer.samples)
        if unleased or isinstance(offer, Skip):
            return unleased
        unusable = weight_problem(offer.weight) or self._rates_problem(offer) or self.refusals.get(clock, "")
        if unusable:
            return unusable
        if len(self.receipts.get(clock, {})) < self._state.layout.shard_count:
            return ""
        return "" if self._hashes_to_root(clock, offer) else "its deltas do not hash to its root"

    def _rates_problem(self, offer: Contribution) -> str:
        config = self._state.config
        if not config.schedule.is_scripts:
            return ""  # they count for nothing
        return rates_problem(offer.learning_rates, len(config.rule.groups))

    def _hashes_to_root(self, clock: Clock, offer: Contribution) -> bool:
        """Whether the receipts of a covered contribution name the deltas that it was made of; asked again and again."""
        if clock not in self._rooted:
            receipts = self.receipts[clock]
            root = contribution_root([receipts[shard].digest for shard in range(self._state.layout.shard_count)])
            self._rooted[clock] = root == offer.root
        return self._rooted[clock]

    def incomplete(self, clock: Clock, patience: int) -> str:
        """Why a contribution that never became whole is given up, or nothing while there is hope."""
        waited = self.served_ticks - self.offered_at.get(clock, self.served_ticks)
        if waited < patience or self.is_whole(clock):
            return ""
        count = self._state.layout.shard_count - len(self.receipts.get(clock, {}))
        return f"not whole after {waited} ticks: receipts of {count} shards are missing"

    def lacking(self) -> set[Clock]:
        """Return the clocks of contributions whose receipts have not all come, and that nothing else rules out."""
        return {clock for clock in self.offers if not self.is_whole(clock) and not self.refusal(clock)}

    def is_whole(self, clock: Clock) -> bool:
        """Whether this clock can settle in a version: a skip, or a contribution whose deltas are all in the log."""
        offer = self.offers.get(clock)
        if offer is None or self.refusal(clock):
            return False
        return isinstance(offer, Skip) or len(self.receipts.get(clock, {})) == self._state.layout.shard_count

    def pending(self, group_id: GroupId) -> list[int]:
        """Return the whole, unsettled clocks of a group, in order and without a gap.

        One that says to have read what one before it has read ends them: once that is settled, it is refused.
        """
        known = self._whole.get(group_id)
        if known is not None:
            return known
        clock = self._state.groups[group_id].settled_clock + 1
        whole: list[int] = []
        read: list[SampleRange] = []
        while self.is_whole((group_id, clock)) and not overlap(read, self.offers[group_id, clock].samples):
            read += self.offers[group_id, clock].samples
            whole.append(clock)
            clock += 1
        self._whole[group_id] = whole
        return whole

    def pace(self, group_id: GroupId) -> int:
        """Settled pace plus whole pending clocks, in versions."""
        return self._state.groups[group_id].settled_pace + len(self.pending(group_id))

    # -- forgetting --------------------------------------------------------------------------------------------------

    def _forget_clocks(self) -> None:
        self._doubt_all()
        for table in (self.offers, self.offered_at, self.receipts, self.refusals, self._rooted):
            for clock in [clock for clock in table if self._state.is_settled(*clock)]:
                del table[clock]
