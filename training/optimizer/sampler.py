"""`Sampler`: the samples that the ledger leases to a script, for its own DataLoader."""

import logging
from collections.abc import Iterator, Sized

from torch.utils.data import Sampler as TorchSampler

from driftline.errors import RunEnded, UsageError
from driftline.schemas.records.sample_range import count
from driftline.training.optimizer.drawing import Drawing, SamplePosition, check_data, too_far
from driftline.training.optimizer.optimizer import ScriptOptimizer
from driftline.training.optimizer.steps import Steps
from driftline.training.worker.order import epoch_order

log = logging.getLogger(__name__)

DROPPED = "fewer than a batch were left, and the loader dropped them"
NO_SAMPLES = "no samples are left for this worker"

EMPTY_PASSES = 1_000
"""Passes that may begin after the run's end: a loop over numbered epochs comes to its end, an endless loop does not."""


class Sampler(TorchSampler[int]):
    """Yield the indices of samples that this worker is leased. All workers together use each sample once an epoch.

    ``loader = DataLoader(data, 64, sampler=driftline.Sampler(opt, data))``

    An iteration is this worker's share of one epoch, in an order that depends on seed and epoch. The next iteration is
    the next epoch, without ``set_epoch``. The length of a share depends on the other workers, so a Sampler has no
    length. A step uses up the samples that were drawn first, ``batch_size`` of them or the rest of the iteration.
    Samples that the loader has drawn and no step was made on are drawn again in the next iteration.

    Before an iteration there may be nothing to read while other workers still read. Then the Sampler waits for them,
    and spends clocks without gradients where the mode needs that. The model loads the versions that the others make.

    Args:
        optimizer: an Optimizer whose run was made with ``samples=len(data)``.
        data: data of the length that the run was made for, the same on every worker.
        batch_size: samples of one step: the batch size of the loader, times the batches whose gradients are
            accumulated. Default: that of the run.

    Raises:
        UsageError: the run leases no samples, or another number of them; or the batch size is not known.
    """

    def __init__(self, optimizer: ScriptOptimizer, data: Sized, *, batch_size: int | None = None) -> None:
        config = check_data(len(data), optimizer.steps(even_if_over=True).member.state)
        size = config.data.batch_size if batch_size is None else batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(
                f"batch_size is {size!r}: say how many samples a step is made of, by "
                f"Sampler(opt, data, batch_size=64), or for the whole run by driftline.Optimizer(…, batch_size=64)"
            )
        self._optimizer = optimizer
        self._samples, self._seed = config.data.samples, config.seed
        optimizer.steps(even_if_over=True).drawing = Drawing(size)

    def __iter__(self) -> Iterator[int]:
        """Go through this worker's share of the oldest epoch that has something to read.

        Raises:
            UsageError: the optimizer is closed; or the loader draws further ahead than this worker is leased.
            WaitTimeout: there was nothing to read, and the others did not end, within the time.
            RunEnded: the loop has no end: 1,000 iterations have begun after the run's end, and each was empty.
        """
        self._begin_pass()
        while (position := self._draw()) is not None:
            epoch, at = position
            yield int(epoch_order(self._samples, self._seed, epoch)[at])

    def _begin_pass(self) -> None:
        steps = self._optimizer.steps(even_if_over=True)
        steps.note_pass()
        if steps.over:
            _begin_empty_pass(steps)
            return
        discarded = _drawing(steps).begin()
        if discarded and steps.still_leased(discarded):
            log.warning("%d samples are discarded: %s", count(discarded), DROPPED)
            steps.skip(DROPPED, discarded)

    def _draw(self) -> SamplePosition | None:
        """Draw the next sample; None when this pass is over."""
        while True:
            steps = self._optimizer.steps(even_if_over=True)
            drawing = _drawing(steps)
            position = None if steps.over else drawing.draw()
            if position is not None:
                return position
            if steps.over or not _look_for_more(steps, drawing):
                drawing.end()
                return None


def _begin_empty_pass(steps: Steps) -> None:
    """Let a loop that does not ask ``opt.done`` come to its end, and stop a loop that has none."""
    if not steps.empty_passes:
        log.warning("there is nothing more to read: %s", steps.over)
    steps.empty_passes += 1
    if steps.empty_passes > EMPTY_PASSES:
        raise RunEnded(f"{EMPTY_PASSES:,} iterations have begun and found nothing: {steps.over}")


def _drawing(steps: Steps) -> Drawing:
    if steps.drawing is None:
        raise AssertionError("a Sampler makes the drawing of its optimizer")
    return steps.drawing


def _look_for_more(steps: Steps, drawing: Drawing) -> bool:
    """Whether there may be more to draw in this pass. Before its first sample it goes on with the run meanwhile."""
    found = steps.member.wait(drawing.look)
    if found is None and drawing.epoch is None:
        steps.advance()  # joins again, or finds out that the run is over
        return not steps.over
    if found is None or not (found.samples or found.must_skip or found.too_far):
        return False
    if found.too_far:
        raise too_far(drawing.waiting, drawing.a_step)
    if found.samples:
        drawing.read(found.samples)
    else:
        steps.skip(NO_SAMPLES, ())
    return True
