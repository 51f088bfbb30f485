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
from driftline.ledger.run_state import RunState
from driftline.telemetry.exporting import Address, exporting
from driftline.telemetry.metrics import WatchMetrics
from driftline.training.model.tensors import named_tensors
from driftline.training.optimizer import registry
from driftline.training.optimizer.gradient import (
    Said,
    first_gradient,
    loss_of_closure,
    read_loss,
    read_weight,
    watch_gradients,
)
from driftline.training.optimizer.model_in_run import ModelInRun
from driftline.training.optimizer.offer import Offers, check_arguments
from driftline.training.optimizer.state import KEY, check_state
from driftline.training.optimizer.termination import TERMINATION
from driftline.training.optimizer.worker_names import claim_name
from driftline.training.worker.drawing import Place
from driftline.training.worker.participation import Participation, leave

log = logging.getLogger(__name__)

SETTLE_S = 10.0
"""Seconds that `close` waits for the ledger to decide on what is under way."""

EXIT_SETTLE_S = 1.0
"""The same at the end of the process, and where an error or an interrupt ends a ``with`` block."""


LEFT_OVER = (
    "gradients of an earlier iteration over the Sampler went into this step, too, and their samples count as not used: "
    "they are read again, or discarded; make a step of what is left at the end of an iteration, or call zero_grad() "
    "there"
)


class ScriptOptimizer(optim.Optimizer):
    """A member of a run that looks like the torch optimizer that it was made of.

    Args:
        torch_optimizer: new, over parameters of ``model``.
        model: whole; what the optimizer does not hold of it stays as in version 0.
        broker: where the run is.
        settings: as this script would start the run; what ``settings.chosen`` does not name is taken over from a run
            that exists. ``epochs`` needs ``samples``.
        place: of the run, for people: Kafka's address and its name.
        worker: name of this worker; None takes that of the machine with a number, see `claim_name`.
        timeout_s: seconds that one wait for others may take.
        metrics: host and port where figures are served to Prometheus; None for nowhere.
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
    place: str
    fingerprint: bytes
    _in_run: ModelInRun | None = None
    _finalizer: "weakref.finalize[..., Any]"
    _hooks: list[Any]

    def __init__(  # noqa: PLR0913 - what `driftline.Optimizer` has found out
        self,
        torch_optimizer: optim.Optimizer,
        model: nn.Module,
        broker: Broker,
        settings: RunSettings,
        *,
        place: str,
        worker: str | None = None,
        timeout_s: float = 600.0,
        metrics: Address | None = None,
        using: ExitStack | None = None,
    ) -> None:
        check_arguments(torch_optimizer, model)
        offers = Offers(model, torch_optimizer, settings)
        super().__init__(torch_optimizer.param_groups, torch_optimizer.defaults)
        self.register_state_dict_post_hook(_say_place)
        self.place, self.fingerprint = place, offers.fingerprint
        self._model, self._pid = model, os.getpid()
        self._touched = False
        self._left_over: torch.Tensor | None = None
        claim = claim_name(place, worker)
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
        told = registry.make_room(self.place, self.worker, self.fingerprint, self._model.parameters())
        if told:
            log.warning("%s", told)
        offers.make_topics(broker)
        member = Participation(broker, offers.settings.run, self.worker, offers, timeout_s, watch)
        # It holds the member, not this object, so that what the script drops is closed.
        self._finalizer = weakref.finalize(self, leave, member, self._using, self._pid, EXIT_SETTLE_S)
        me = weakref.ref(self)
        in_run = ModelInRun(member, self._model, lambda: _groups(me))
        try:
            in_run.advance()
        except BaseException:
            self._finalizer()
            raise
        self._in_run = in_run
        self._hooks = watch_gradients(self._model, me)
        weakref.finalize(self, _remove, self._hooks).atexit = False
        registry.register(self)
        log.info("worker %s of %s %s", self.worker, self.place, in_run.words())
        if in_run.over:
            log.warning("nothing is left to train: %s", in_run.over)

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
                step() goes on waiting.
            UsageError: closed, or called in a forked process; or ``weight`` or ``loss`` is no number.
            RunRefused: gradients are sparse. Names them.
            RunError: the run has failed, or another process has taken this worker's name.
            BrokerError: Kafka refuses the client.
        """
        in_run = self._usable(or_over=True)
        if in_run.over:
            if in_run.drops_read_ahead():
                return None
            raise RunEnded(in_run.over)
        if not in_run.is_open:
            # An earlier step was interrupted while it waited; the gradients there are now belong to its version.
            in_run.advance()
            if closure is None or in_run.over:
                log.warning("gradients of an earlier version are dropped: the step before this one was interrupted")
                return None
        found = None
        if closure is not None:
            with torch.enable_grad():
                found = closure()
        said = Said(
            weight=read_weight(weight),
            loss=loss_of_closure(found) if loss is None else read_loss(loss),
            scale=self._scale(),
            cursor=in_run.steps + 1,
        )
        self._touched = False
        self._warn_of_what_was_left_over()
        in_run.contribute(said, self._overflow())
        in_run.advance()
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        """See torch."""
        self._touched, self._left_over = False, None
        super().zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See torch; only while the optimizer is being made.

        Raises:
            UsageError: the run has its parameter groups already.
        """
        if self._in_run is not None:
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
        in_run = self._usable()
        check_state(state_dict, in_run.place(self.fingerprint.hex()), in_run.head)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != KEY})
        in_run.show_rates()

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
        return self._known().version

    @property
    def done(self) -> bool:
        """Whether the run has ended and its last version is loaded; step() raises `RunEnded` from then on."""
        return bool(self._known().over)

    def pull(self) -> int:
        """Load the newest version without contributing, if there is a newer one; return the version now loaded.

        Raises:
            UsageError: closed, or called in a forked process, or between ``backward()`` and ``step()``.
        """
        in_run = self._usable(or_over=True)
        if in_run.over:
            return in_run.version
        if self._touched:
            raise UsageError(
                "pull() between backward() and step() would add up gradients of two versions; call it behind step(), "
                "or zero_grad() first"
            )
        in_run.pull()
        return in_run.version

    def close(self, timeout: float = SETTLE_S) -> int:
        """Leave the run: wait for what is under way, flush, and release everything. Idempotent.

        The model keeps its version, and the other workers go on without this one.

        Args:
            timeout: longest wait for decisions on contributions under way, in seconds. After SIGTERM it is at most one
                second, because the process has more to do before it ends.

        Returns:
            Number of records that Kafka has not acknowledged. The log names them, too.
        """
        registry.unregister(self)
        taken = self._finalizer.detach()
        if taken is None:
            return 0
        _remove(self._hooks)
        _, _, (member, using, pid, _), _ = taken
        return leave(member, using, pid, min(timeout, EXIT_SETTLE_S) if TERMINATION.is_asked else timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(SETTLE_S if error is None else EXIT_SETTLE_S)

    # -- what a Sampler asks -----------------------------------------------------------------------------------------

    @property
    def run_state(self) -> RunState:
        """The fold of the run's ledger. It moves on: read single values only."""
        return self._known().state

    def reads_in_steps_of(self, samples: int) -> None:
        """Let each step use up so many of the samples that are drawn; see `driftline.Sampler`."""
        self._usable(or_over=True).read_in_steps_of(samples)

    def begin_pass(self) -> None:
        """See `ModelInRun.begin_pass`; notes whether gradients are there of samples that no step has used up."""
        in_run = self._usable(or_over=True)
        if self._touched and in_run.has_drawn:
            self._left_over = first_gradient(self._model)
        in_run.begin_pass()

    def draw(self) -> Place | None:
        """See `ModelInRun.draw`; None if the run is over."""
        return self._usable(or_over=True).draw()

    # -- what the registry asks --------------------------------------------------------------------------------------

    def names_of(self, parameters: Iterable[nn.Parameter]) -> list[str]:
        """See `registry.Registered`."""
        own = {named.parameter: named.name for named in named_tensors(self._model)}
        return [own[parameter] for parameter in parameters if parameter in own]

    def give_way(self) -> None:
        """See `registry.Registered`."""
        self.close(EXIT_SETTLE_S)

    # -- what the hooks of gradients call ----------------------------------------------------------------------------

    def touch(self) -> None:
        """Note that there are gradients which no step has contributed."""
        self._touched = True

    # -- inside ------------------------------------------------------------------------------------------------------

    def _known(self) -> ModelInRun:
        if self._in_run is None:
            raise AssertionError("the constructor has joined a run")
        return self._in_run

    def _usable(self, *, or_over: bool = False) -> ModelInRun:
        if os.getpid() != self._pid:
            raise UsageError(
                f"this Optimizer belongs to process {self._pid}; after a fork its threads and connections are not "
                f"here. Make it in the process that trains (worker processes of a DataLoader must not step)"
            )
        in_run = self._known()
        if not self._finalizer.alive and not (or_over and in_run.over):
            raise UsageError(
                f"this Optimizer of {self.place} is closed; if a notebook's cell was run again, use the new one"
            )
        return in_run

    def _warn_of_what_was_left_over(self) -> None:
        """Gradients that were set to None meanwhile are others, even if it was the model that did so."""
        if self._left_over is not None and self._left_over is first_gradient(self._model):
            log.warning("%s", LEFT_OVER)
        self._left_over = None

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


def _say_place(optimizer: optim.Optimizer, state: dict[str, Any]) -> None:
    """Add to a state where the run is; a hook of torch's ``state_dict``."""
    if isinstance(optimizer, ScriptOptimizer):
        place = optimizer._known().place(optimizer.fingerprint.hex())  # noqa: SLF001 - our own class
        state[KEY] = place.to_dict()


def _remove(hooks: list[Any]) -> None:
    while hooks:
        hooks.pop().remove()
