"""`Sampler`: the samples that the ledger leases to a script, for its own DataLoader."""

from collections.abc import Iterator, Sized

from torch.utils.data import Sampler as TorchSampler

from driftline.errors import UsageError
from driftline.training.optimizer.optimizer import ScriptOptimizer
from driftline.training.task.data import epoch_order
from driftline.training.worker.drawing import check_data


class Sampler(TorchSampler[int]):
    """Yields the indices of samples that are leased to this worker: each is used once an epoch by all of them together.

    ``loader = DataLoader(data, 64, sampler=driftline.Sampler(opt, data))``

    An iteration is this worker's share of one epoch, in an order that depends on seed and epoch; the next iteration is
    the next epoch, and there is no ``set_epoch``. How long a share is depends on the others, so it has no length. A
    step uses up the samples that were drawn first, ``batch_size`` of them or what is left of the pass; what the loader
    has drawn and no step was made on is not used up, and drawn again in the next iteration.

    Before an iteration there may be nothing to read while others still are at it. Then it waits for them, and spends
    clocks without gradients where the mode needs that; the model takes over the versions that the others make.

    Args:
        optimizer: of a run that was made with ``samples=len(data)``.
        data: of the length that the run was made for, the same on every worker.
        batch_size: how many samples a step is made of: the loader's batch size, times the batches whose gradients are
            accumulated. By default that of the run.

    Raises:
        UsageError: the run leases no samples, or another number; or no batch size is known.
    """

    def __init__(self, optimizer: ScriptOptimizer, data: Sized, *, batch_size: int | None = None) -> None:
        config = check_data(len(data), optimizer.run_state)
        size = config.data.batch_size if batch_size is None else batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(
                f"batch_size is {size!r}: say how many samples a step is made of, by "
                f"Sampler(opt, data, batch_size=64), or for the whole run by driftline.Optimizer(…, batch_size=64)"
            )
        self._optimizer = optimizer
        self._samples, self._seed = config.data.samples, config.seed
        optimizer.reads_in_steps_of(size)

    def __iter__(self) -> Iterator[int]:
        """Go through this worker's share of the oldest epoch that there is something to read of.

        Raises:
            UsageError: the optimizer is closed; or the loader draws further ahead than this worker is leased.
            WaitTimeout: nothing to read, and the others did not end, within the time.
            RunEnded: the loop has no end: 1,000 iterations have begun behind that of the run, and each was empty.
        """
        self._optimizer.begin_pass()
        while (place := self._optimizer.draw()) is not None:
            epoch, at = place
            yield int(epoch_order(self._samples, self._seed, epoch)[at])
