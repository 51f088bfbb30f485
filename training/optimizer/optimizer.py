"""`Optimizer`: a torch optimizer whose steps are made by a run in Kafka, for scripts that keep their own loop.

It takes the place of the script's optimizer. That one is read once, for its rule and its parameter groups, and never
stepped: servers apply the rule. A step of this one sends the gradients, waits as the run's mode says, and copies the
next version into the model. Parameters change nowhere else than in the constructor, in `step` and in `pull`, and on the
thread that calls them.
"""

import logging
import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NoReturn, Self

import torch
from torch import nn, optim

from driftline.broker.port import Broker
from driftline.config.run_settings import RunSettings
from driftline.errors import RunEnded, UsageError
from driftline.telemetry.exporting import Address, exporting
from driftline.telemetry.metrics import WatchMetrics
from driftline.training.model.tensors import named_tensors
from driftline.training.optimizer import process
from driftline.training.optimizer.gradient import StepReport, loss_of_closure, read_loss, read_weight, watch_gradients
from driftline.training.optimizer.offer import Offers, check_arguments, check_process
from driftline.training.optimizer.process import TERMINATION
from driftline.training.optimizer.state import KEY, check_state
from driftline.training.optimizer.steps import Steps
from driftline.training.optimizer.worker_names import claim_name
from driftline.training.worker.participation import Participation
from driftline.training.worker.topics import RunTopics

log = logging.getLogger(__name__)

SETTLE_S = 10.0
"""Seconds that `close` waits for the ledger to decide on what is under way."""

EXIT_SETTLE_S = 1.0
"""The same at the end of the process, and where an error or an interrupt ends a ``with`` block."""


NO_BACKWARD = (
    "step() without a backward pass, on gradients that are all zero, does nothing. Tools that read an optimizer's "
    "state make such steps; the state of this one is in Kafka"
)


class ScriptOptimizer(optim.Optimizer):
    """A member of a run that looks like the torch optimizer that it was made of.

    Args:
        torch_optimizer: new, over parameters of ``model``.
        model: whole; what the optimizer does not hold of it stays as in version 0.
        broker: where the run is.
        settings: as this script would start the run; what ``settings.chosen`` does not name is taken over from a run
            that exists. ``epochs`` needs ``samples``.
        address: of the run, for messages: Kafka's address and the run's name.
        worker: name of this worker; None takes that of the machine with a number, see `claim_name`.
        timeout_s: seconds that one wait for others may take.
        metrics: host and port where metrics are served to Prometheus; None for nowhere.
        using: closed when this optimizer is, or cannot be made.

    Raises:
        UsageError: an argument is of a wrong type, or name or port is another process's.
        ConfigError: lists everything about model, optimizer and settings that cannot be trained, by name.
        RunRefused: the run has other settings or another model; says which.
        WaitTimeout: the run did not start in time; says for whom it waited.
        BrokerError: Kafka refuses to work with us.
    """

    # torch's GradScaler then calls step() also when gradients overflowed, and leaves the rest to it.
    _step_supports_amp_scaling = True

    worker: str
    address: str
    fingerprint: bytes
    _steps: Steps | None = None
    _finalizer: "weakref.finalize[..., Any]"
    _hooks: list[Any]

    def __init__(  # noqa: PLR0913 - what `driftline.Optimizer` has found out
        self,
        torch_optimizer: optim.Optimizer,
        model: nn.Module,
        broker: Broker,
        settings: RunSettings,
        *,
        address: str,
        worker: str | None = None,
        timeout_s: float = 600.0,
        metrics: Address | None = None,
        using: ExitStack | None = None,
    ) -> None:
        check_process()
        check_arguments(torch_optimizer, model)
        offers = Offers(model, torch_optimizer, settings)
        super().__init__(torch_optimizer.param_groups, torch_optimizer.defaults)
        self.register_state_dict_post_hook(_add_position)
        self.address, self.fingerprint = address, offers.fingerprint
        self._model, self._pid = model, os.getpid()
        claim = claim_name(address, worker)
        self.worker = claim.name
        self._using = using or ExitStack()
        self._using.callback(claim.release)
        TERMINATION.hold()
        self._using.callback(TERMINATION.release)
        try:
            watch = self._using.enter_context(exporting(metrics, run=settings.run, role="worker", member=self.worker))
            self._join(broker, offers, timeout_s, watch)
        except BaseException:
            self._using.close()
            raise

    def _join(self, broker: Broker, offers: Offers, timeout_s: float, watch: WatchMetrics) -> None:
        message = process.make_room(self.address, self.worker, self.fingerprint, self._model.parameters())
        if message:
            log.warning("%s", message)
        topics = RunTopics(broker, offers.settings)
        offers.settings = topics.settings
        topics.create()
        member = Participation(broker, offers.settings.run, self.worker, offers, timeout_s=timeout_s, watch=watch)
        # It holds the member, not this object, so that what the script drops is closed.
        self._finalizer = weakref.finalize(self, _leave, member, self._using, self._pid, EXIT_SETTLE_S)
        me = weakref.ref(self)
        steps = Steps(member, self._model, lambda: _groups(me))
        try:
            steps.advance()
        except BaseException:
            self._finalizer()
            raise
        self._steps = steps
        self._hooks = watch_gradients(self._model, weakref.ref(steps))
        weakref.finalize(self, _remove, self._hooks).atexit = False
        process.register(self)
        log.info("worker %s of %s %s", self.worker, self.address, steps.summary())
        if steps.over:
            log.warning("nothing is left to train: %s", steps.over)

    # -- what torch calls --------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, *, weight: Any = None, loss: Any = None) -> Any:
        """Contribute the gradients, wait as the mode says, and load the next version.

        Args:
            closure: computes the loss and calls ``backward()``. Called once, with gradients enabled.
            weight: what the loss is a mean over, usually the number of samples. It is the weight of these gradients in
                the mean over workers. Default: 1 for every worker.
            loss: the loss for the ledger and ``driftline status``. Default: what the closure returns.

        Returns:
            What the closure returned. None without a closure, or if the gradients were dropped before it was called.

        Raises:
            RunEnded: the run was over before this step, and `done` was set. A batch that the loader of a
                `driftline.Sampler` had read ahead is dropped without this error, and the loader gives no more.
            WaitTimeout: the next version did not come in time. Names the workers or servers that it waited for. Another
                step() continues to wait.
            UsageError: closed, or called in a forked process; or ``weight`` or ``loss`` is no number.
            RunRefused: gradients are sparse. Names them.
            RunError: the run has failed, or another process has taken this worker's name.
            BrokerError: Kafka refuses the client.
        """
        steps = self.steps(even_if_over=True)
        if steps.over:
            if steps.drop_read_ahead():
                return None
            raise RunEnded(steps.over)
        if not steps.is_open:
            # An earlier step was interrupted while it waited; the gradients there are now belong to its version.
            steps.advance()
            if closure is None or steps.over:
                log.warning("gradients of an earlier version are dropped: the step before this one was interrupted")
                return None
        if closure is None and steps.is_empty:
            log.warning("%s", NO_BACKWARD)
            return None
        found = None
        if closure is not None:
            with torch.enable_grad():
                found = closure()
        weight, mean = read_weight(weight), loss_of_closure(found) if loss is None else read_loss(loss)
        steps.send_gradients(StepReport(weight=weight, loss=mean, scale=self._scale(), overflow=self._overflow()))
        steps.advance()
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        """See torch."""
        if self._steps is not None:
            self._steps.forget_gradients()
        super().zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See torch; only while the optimizer is being made.

        Raises:
            UsageError: the run has its parameter groups already.
        """
        if self._steps is not None:
            names = self.names_of(param_group["params"] if isinstance(param_group.get("params"), list) else [])
            raise UsageError(
                f"add_param_group({', '.join(names) or '…'}): the parameter groups of a run are fixed when it is made; "
                f"give all groups to the torch optimizer before, with requires_grad as it shall be"
            )
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Check that a saved state is of this run, and no newer; parameters and rates stay those of the run's version.

        Raises:
            UsageError: it is the state of another optimizer.
            RunRefused: it is of another run or model, or of a version that this run has not reached.
        """
        steps = self.steps()
        check_state(state_dict, steps.position(self.fingerprint.hex()), steps.member.state.version)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != KEY})
        steps.show_rates()

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise UsageError(
            "a driftline.Optimizer cannot be copied or pickled: it is one member of a run, with connections and "
            "threads. state_dict() can; another process makes its own Optimizer"
        )

    def __deepcopy__(self, _memo: Any) -> NoReturn:
        self.__reduce_ex__(None)

    # -- what only a run has -----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the model's parameters, from 0."""
        return self._joined.version

    @property
    def done(self) -> bool:
        """Whether the run has ended and its last version is loaded; step() raises `RunEnded` from then on."""
        return bool(self._joined.over)

    def pull(self) -> int:
        """Load the newest version without contributing, if there is a newer one; return the version now loaded.

        Raises:
            UsageError: closed, or called in a forked process, or between ``backward()`` and ``step()``.
        """
        steps = self.steps(even_if_over=True)
        if steps.over:
            return steps.version
        if steps.has_gradients:
            raise UsageError(
                "pull() between backward() and step() would add up gradients of two versions; call it after step(), "
                "or zero_grad() first"
            )
        steps.pull()
        return steps.version

    def close(self, timeout: float = SETTLE_S) -> int:
        """Leave the run: wait for what is under way, flush, and release everything. Idempotent.

        The model keeps its version, and the other workers go on without this one.

        Args:
            timeout: longest wait for decisions on contributions under way, in seconds. After SIGTERM it is at most one
                second, because the process has more to do before it ends.

        Returns:
            Number of records that Kafka has not acknowledged. The log names them, too.
        """
        process.unregister(self)
        taken = self._finalizer.detach()
        if taken is None:
            return 0
        _remove(self._hooks)
        if self._steps is not None and not self._steps.count and not self._steps.over:
            log.warning("worker %s leaves without a contribution: opt.step() was never called", self.worker)
        _, _, (member, using, pid, _), _ = taken
        return _leave(member, using, pid, min(timeout, EXIT_SETTLE_S) if TERMINATION.is_asked else timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(SETTLE_S if error is None else EXIT_SETTLE_S)

    # -- what other parts ask ----------------------------------------------------------------------------------------

    def names_of(self, parameters: Iterable[nn.Parameter]) -> list[str]:
        """See `process.Registered`."""
        own = {named.parameter: named.name for named in named_tensors(self._model)}
        return [own[parameter] for parameter in parameters if parameter in own]

    def give_way(self) -> None:
        """See `process.Registered`."""
        self.close(EXIT_SETTLE_S)

    def steps(self, *, even_if_over: bool = False) -> Steps:
        """Return the steps of this optimizer, if it may be used.

        Args:
            even_if_over: also of an optimizer that is closed, if its run is over.

        Raises:
            UsageError: it is closed, or this is a forked process.
        """
        if os.getpid() != self._pid:
            raise UsageError(
                f"this Optimizer belongs to process {self._pid}; after a fork its threads and connections are not "
                f"here. Make it in the process that trains (worker processes of a DataLoader must not step)"
            )
        steps = self._joined
        if not self._finalizer.alive and not (even_if_over and steps.over):
            raise UsageError(
                f"this Optimizer of {self.address} is closed; if a notebook's cell was run again, use the new one"
            )
        return steps

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _joined(self) -> Steps:
        if self._steps is None:
            raise AssertionError("the constructor has joined a run")
        return self._steps

    def _overflow(self) -> str:
        found = getattr(self, "found_inf", None)
        overflowed = found is not None and bool(float(found))
        return "gradients overflowed in mixed precision" if overflowed else ""

    def _scale(self) -> float:
        scale = getattr(self, "grad_scale", None)
        return 1.0 if scale is None else float(scale)


def _groups(owner: "weakref.ref[ScriptOptimizer]") -> list[dict[str, Any]]:
    found = owner()
    return [] if found is None else found.param_groups


def _add_position(optimizer: optim.Optimizer, state: dict[str, Any]) -> None:
    """Add the position in the run to a state; a hook of torch's ``state_dict``."""
    if isinstance(optimizer, ScriptOptimizer):
        position = optimizer._joined.position(optimizer.fingerprint.hex())  # noqa: SLF001 - our own class
        state[KEY] = position.to_dict()


def _leave(member: Participation, using: ExitStack, pid: int, settle_s: float) -> int:
    """Leave the run, release what was used, report what is unfinished; return how many records were not delivered.

    In a forked child nothing happens: threads and connections are the parent's.
    """
    if os.getpid() != pid:
        return 0
    try:
        member.close("closed by the script", settle_s)
    finally:
        using.close()
        unfinished = member.unfinished
        if str(unfinished):
            log.error("worker %s leaves with %s", member.worker, unfinished)
    return unfinished.undelivered


def _remove(hooks: list[Any]) -> None:
    while hooks:
        hooks.pop().remove()
