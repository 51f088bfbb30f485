"""`Sampler`: the samples that the ledger leases to a script, for its own DataLoader."""

from collections.abc import Iterator, Sized

from torch.utils.data import Sampler as TorchSampler

from driftline.errors import UsageError
from driftline.training.optimizer.optimizer import ScriptOptimizer
from driftline.training.task.data import epoch_order
from driftline.training.worker.drawing import check_data


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
            UsageError: the optimizer is closed, or the loader draws further ahead than this worker is leased.
            WaitTimeout: there was nothing to read, and the other workers did not finish in time.
            RunEnded: the loop has no end: 1,000 empty iterations have begun after the end of the run.
        """
        self._optimizer.begin_pass()
        while (place := self._optimizer.draw()) is not None:
            epoch, at = place
            yield int(epoch_order(self._samples, self._seed, epoch)[at])
