"""A script's model as a run sees it: which version it holds, what the next step begins on, and how the run ended."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from torch import nn

from driftline.errors import RunEnded, UsageError
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.producers.deltas import Gradient
from driftline.schemas.records.sample_range import Samples, count
from driftline.training.model.layout import load_parameters
from driftline.training.optimizer.gradient import Said, gradient_of
from driftline.training.optimizer.rates import WRITTEN, Rates
from driftline.training.optimizer.state import RunPlace
from driftline.training.worker.drawing import DROPPED, Drawing, Place, still_leased, too_far
from driftline.training.worker.participation import Participation

LOST = "its samples are no longer leased to this worker, which was removed meanwhile"
NO_SAMPLES = "no samples are left for this worker"

EMPTY_PASSES = 1_000
"""That may be begun behind the run's end: a loop over numbered epochs comes to its end, an endless one never does."""

log = logging.getLogger(__name__)

Groups: TypeAlias = list[dict[str, Any]]


class ModelInRun:
    """The model of one member. The model changes in `advance` and `pull` alone.

    Args:
        member: of the run, just joined.
        model: fits the run.
        groups: returns the optimizer's ``param_groups``.

    Attributes:
        version: of the model's parameters; -1 before the first `advance`.
        is_open: whether a step may begin on them.
        over: why there are no more steps; empty while there are.
        steps: that were made here.
    """

    def __init__(self, member: Participation, model: nn.Module, groups: Callable[[], Groups]) -> None:
        self.version = -1
        self.over = ""
        self.steps = 0
        self._member, self._model, self._groups = member, model, groups
        self._base: Model | None = None
        self._rates: Rates | None = None
        self._drawing: Drawing | None = None
        self._empty_passes = 0
        self._warned = False

    @property
    def is_open(self) -> bool:
        """See the class."""
        return self._base is not None

    @property
    def state(self) -> RunState:
        """The fold of the ledger; it moves on."""
        return self._member.look()

    @property
    def head(self) -> int:
        """The run's newest version, as far as it is known here."""
        return self._member.look().version

    def advance(self) -> None:
        """Wait until the next step may begin, and load what it begins on; at the run's end, load its last version.

        Raises:
            Whatever `Participation.next_model` raises.
        """
        model = self._member.next_model()
        if model is not None:
            self._take(model)
            return
        newest, ended = self._member.last_model(), self._member.look().ended
        if newest is not None and newest.version > self.version:
            self._take(newest)
        self._base = None
        where = f"at version {self.version}" if ended is None else f"at version {ended.version} ({ended.reason})"
        self.over = f"the run has ended {where}; leave the loop when opt.done is true, or name another run"
        log.info("the run has ended %s", where)

    def pull(self) -> None:
        """Load the newest version that a step may begin on, if it is newer."""
        model = self._member.startable()
        if model is not None and model.version > self.version:
            self._take(model)

    def contribute(self, said: Said, overflow: str) -> None:
        """Spend the step that is open: send the model's gradients, or say why there are none.

        Args:
            said: by the script.
            overflow: why the gradients cannot be used; empty if they can.

        Raises:
            UsageError: a rate in ``param_groups`` is none that can count, or the run leases samples and nobody has
                drawn any; the step is not spent.
        """
        base = self._base
        if base is None:
            raise AssertionError("a step is spent once")
        samples = self._taken()
        self.check_rates()
        rates = () if self._rates is None else self._rates.asked_for(self._groups())
        lost = "" if still_leased(samples, self._member.samples()) else LOST
        found = lost or overflow or self._gradient(base, replace(said, learning_rates=rates, samples=samples))
        self.steps += 1
        self._base = None
        if isinstance(found, str):
            log.warning("a step on version %d contributes nothing: %s", base.version, found)
            spent = self._member.skip(base, said.cursor, found, () if lost else samples)
        else:
            spent = self._member.contribute(base, found)
        if not spent:
            log.warning("the gradients of version %d come too late and are dropped", base.version)

    def _gradient(self, base: Model, said: Said) -> Gradient | str:
        state = self._member.look()
        return gradient_of(self._model, state.layout, base.flat, said, state.config.local.clip_norm)

    # -- samples -----------------------------------------------------------------------------------------------------

    def read_in_steps_of(self, size: int) -> None:
        """Let steps use up so many leased samples each, of those that are drawn from now on."""
        self._drawing = Drawing(size)

    @property
    def has_drawn(self) -> bool:
        """Whether samples are drawn that no step was made on."""
        return self._drawing is not None and self._drawing.waiting > 0

    def begin_pass(self) -> None:
        """Begin to draw the samples of the oldest epoch of which there is something to read.

        Raises:
            RunEnded: the run is over, and `EMPTY_PASSES` were begun since.
            Whatever `Participation.next_model` raises.
        """
        if self.over:
            self._begin_empty_pass()
            return
        discarded = self._known_drawing().begin()
        if discarded and still_leased(discarded, self._member.samples()):
            log.warning("%d samples are discarded: %s", count(discarded), DROPPED)
            self._spend_without(DROPPED, discarded)

    def _begin_empty_pass(self) -> None:
        """Let a loop that does not ask `done` come to its end, but not go on for ever."""
        if not self._empty_passes:
            log.warning("there is nothing more to read: %s", self.over)
        self._empty_passes += 1
        if self._empty_passes > EMPTY_PASSES:
            raise RunEnded(f"{EMPTY_PASSES:,} iterations have begun and found nothing: {self.over}")

    def draw(self) -> Place | None:
        """Draw the next sample: its epoch and its place in that; None when this pass is over.

        Raises:
            UsageError: the loader draws further ahead than this worker is leased.
            Whatever `Participation.next_model` raises.
        """
        drawing = self._known_drawing()
        while not self.over:
            place = drawing.draw()
            if place is not None:
                return place
            if not self._look_for_more(drawing):
                break
        drawing.end()
        return None

    def _look_for_more(self, drawing: Drawing) -> bool:
        """Whether there may be more to draw in this pass. Before its first sample it goes on with the run meanwhile."""
        found = self._member.find(drawing)
        if found is None and drawing.epoch is None:
            self.advance()  # joins again, or finds out that the run is over
            return not self.over
        if found is None or not (found.samples or found.must_skip or found.too_far):
            return False
        if found.too_far:
            raise too_far(drawing.waiting, drawing.a_step)
        if found.samples:
            drawing.read(found.samples)
        else:
            self._spend_without(NO_SAMPLES, ())
        return True

    def drops_read_ahead(self) -> bool:
        """Whether a step behind the run's end is one that its loader had read ahead; what it was made of is dropped."""
        if self._drawing is None or not self.has_drawn:
            return False
        log.info("samples that the loader had read ahead are dropped: %s", self.over)
        self._drawing.take()
        return True

    def _spend_without(self, reason: str, discarded: Samples) -> None:
        """Spend a clock without a gradient, so that the others can go on, and load what they make."""
        if not self.is_open:
            self.advance()
        if self._base is not None:
            self._member.skip(self._base, self.steps, reason, discarded)
            self._base = None
            self.advance()

    def _taken(self) -> Samples:
        """Return the samples that the step is made of."""
        if self._drawing is not None:
            return self._drawing.take()
        if self._member.look().leases.is_on:
            raise UsageError(
                "this run leases its samples, and this script draws none: read the data by "
                "DataLoader(data, …, sampler=driftline.Sampler(opt, data)), or make a run without samples="
            )
        return ()

    def _known_drawing(self) -> Drawing:
        if self._drawing is None:
            raise AssertionError("only a Sampler draws, and it says in which steps")
        return self._drawing

    # -- rates -------------------------------------------------------------------------------------------------------

    def check_rates(self) -> None:
        """Say once that what a script writes into ``param_groups`` is not what counts."""
        written = None if self._warned or self._rates is None else self._rates.written(self._groups())
        if written is not None:
            self._warned = True
            group, there, counts = written
            log.warning(WRITTEN, group, there, counts, self.version + 1)

    def show_rates(self) -> None:
        """Write the rates of the next version into ``param_groups``, unless they are the script's."""
        if self._rates is None:
            self._rates = Rates(self._member.look().config, self._groups())
        self._rates.show(self._groups(), self.version + 1)

    def place(self, fingerprint: str) -> RunPlace:
        """Return where the model is."""
        start = self._member.look().start
        return RunPlace(start.name, start.run.hex(), self.version, fingerprint)

    def words(self) -> str:
        """Say in a line what was joined."""
        state = self._member.look()
        config, workers = state.config, ", ".join(sorted(one.worker for one in state.groups.values()))
        epochs = f"ends after {config.data.epochs} epochs" if config.data.epochs else "ends when it is stopped"
        end = f"ends at version {config.steps}" if config.steps else epochs
        return f"at version {self.version}; mode {config.consistency.mode}; {end}; workers {workers or 'none any more'}"

    def _take(self, model: Model) -> None:
        if model.version != self.version:
            load_parameters(self._model, self._member.look().layout, model.flat)
        self.version, self._base = model.version, model
        self.show_rates()
