"""What a script's loader draws of the samples that are leased to its worker, and which of them a step is made of.

Loaders read ahead, so what is drawn is not what is trained on. Draws wait in a queue, in their order, and a step takes
a batch from the head of the queue, or what is there. What no step has taken is not consumed: it stays leased to this
worker, and the next pass draws it again.

A pass is over one epoch, the oldest that has something to read. It ends when nothing of that epoch is left for this
worker. What comes back later, for example from a worker that left, is a pass of its own.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from driftline.errors import UsageError
from driftline.ledger.run_state import RunState
from driftline.producers.session import WorkerSession
from driftline.schemas.records.sample_range import SampleRange, Samples, count, joined, without
from driftline.schemas.run.config import RunConfig

log = logging.getLogger(__name__)

SamplePosition = tuple[int, int]
"""An epoch, and a position in its order."""


@dataclass(frozen=True, slots=True)
class SampleAvailability:
    """What there is to read now.

    Attributes:
        samples: of one epoch; none if nothing of it is left for this worker.
        must_skip: whether a clock has to be spent without any, so that others can go on.
        too_far: whether more can be drawn only after steps on those that were drawn.
    """

    samples: Samples = ()
    must_skip: bool = False
    too_far: bool = False


class Drawing:
    """The draws of one worker that no step has taken.

    Args:
        a_step: how many samples a step is made of, as a rule.
    """

    def __init__(self, a_step: int) -> None:
        self.a_step = a_step
        self.epoch: int | None = None
        self._drawn: list[SamplePosition] = []
        self._ahead: list[SampleRange] = []
        self._steps = 0
        self._was_whole = False

    @property
    def waiting(self) -> int:
        """How many samples are drawn and in no step yet."""
        return len(self._drawn)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def begin(self) -> Samples:
        """Begin a pass; return what is to be discarded first: what a whole pass has drawn without a single step."""
        left = _ranges(self._drawn)
        discarded = left if self._was_whole and not self._steps else ()
        if self._was_whole and self._steps and len(self._drawn) >= self.a_step:
            log.warning(
                "%d samples of the last pass went into no step and are read again; if a step is made of more than %d "
                "samples, because gradients of several batches are accumulated, use Sampler(opt, data, batch_size=…)",
                len(self._drawn),
                self.a_step,
            )
        self._drawn.clear()
        self._ahead.clear()
        self.epoch, self._steps, self._was_whole = None, 0, False
        return discarded

    def draw(self) -> SamplePosition | None:
        """Draw the next sample that was found; None if more have to be looked for."""
        if not self._ahead:
            return None
        first = self._ahead[0]
        rest = SampleRange(epoch=first.epoch, start=first.start + 1, count=first.count - 1)
        self._ahead[:1] = [rest] if rest.count else []
        self._drawn.append((first.epoch, first.start))
        return self._drawn[-1]

    def read(self, samples: Samples) -> None:
        """Take over what there is to read next."""
        self._ahead = list(samples)
        self.epoch = samples[0].epoch

    def end(self) -> None:
        """Note that a pass has come to its end."""
        self._was_whole = True

    def look(self, session: WorkerSession) -> SampleAvailability | None:
        """Return what there is to read now, or None while that is not known; under the session's lock."""
        left = without(session.samples, _ranges(self._drawn))
        epoch = left[0].epoch if self.epoch is None and left else self.epoch
        samples = tuple(one for one in left if one.epoch == epoch)
        state, group = session.state, session.group
        if samples:
            return SampleAvailability(samples)
        if group is None or state.is_finished:
            # A new pass waits for what becomes of this worker, or of the run.
            return None if epoch is None else SampleAvailability()
        if state.leases.is_due(group.id):
            return None
        if epoch is None:
            return self._nothing(session)
        # Samples of another epoch are enough: free ones of this epoch were given back by a worker that left.
        return SampleAvailability() if left or not state.leases.is_free(epoch) else self._later(session)

    def _later(self, session: WorkerSession) -> SampleAvailability | None:
        """Look whether more of the epoch may be leased to this worker, which has drawn all that it holds."""
        if session.has_unsettled or session.state.leases.due():  # the next record may change what is free, or is due
            return None
        # What an earlier membership has drawn may be another worker's by now: then no step makes room for more.
        return SampleAvailability(too_far=still_leased(_ranges(self._drawn), session.samples))

    @staticmethod
    def _nothing(session: WorkerSession) -> SampleAvailability | None:
        by_clock = session.state.config.consistency.closes_by_clock
        return SampleAvailability(must_skip=True) if by_clock and session.lacks_samples else None

    # -- stepping ----------------------------------------------------------------------------------------------------

    def take(self) -> Samples:
        """Return the samples of the step that is made now."""
        self._steps += 1
        taken, self._drawn = self._drawn[: self.a_step], self._drawn[self.a_step :]
        return _ranges(taken)


def _ranges(places: Iterable[SamplePosition]) -> Samples:
    return joined(SampleRange(epoch=epoch, start=place, count=1) for epoch, place in places)


def check_data(samples: int, state: RunState) -> RunConfig:
    """Return the settings of a run that leases so many samples.

    Raises:
        UsageError: it leases none, or another number; says what to do.
    """
    config = state.config
    if not config.data.is_leased:
        raise UsageError(
            f"this run leases no samples, so a Sampler has none; make it with "
            f"driftline.Optimizer(…, samples={samples}, batch_size=…), which all of its scripts must agree on"
        )
    if config.data.samples != samples:
        raise UsageError(
            f"the data has {samples} samples, and the run was made for {config.data.samples}; all workers of a run "
            f"read the same data"
        )
    return config


def too_far(drawn: int, a_step: int) -> UsageError:
    """Return the error for a loader that draws more than its worker may hold, although steps use up ``a_step`` each."""
    return UsageError(
        f"the loader has drawn {drawn} samples ahead of the steps, each of which uses up {a_step}, and this worker is "
        f"leased no more before some are used. If a step is made of more, because gradients of several batches are "
        f"accumulated, use Sampler(opt, data, batch_size=…). If not, give the loader a smaller prefetch_factor or "
        f"fewer worker processes, or make the run with a larger block (driftline.Optimizer(…, block={2 * drawn}))"
    )


def still_leased(samples: Samples, leased: Samples) -> bool:
    """Whether all of these may still be used: a worker that was removed meanwhile has lost what it held."""
    return not count(without(samples, leased))
