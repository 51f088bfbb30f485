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
from driftline.consumers.follower import Model
from driftline.errors import RunEnded, UsageError
from driftline.producers.deltas import Gradient
from driftline.schemas.run_config import RunConfig
from driftline.training import optimizer_registry as registry
from driftline.training.model_layout import load_parameters, named_tensors
from driftline.training.optimizer_gradient import (
    Said,
    gradient_of,
    loss_of_closure,
    read_loss,
    read_weight,
    watch_gradients,
)
from driftline.training.optimizer_offer import Offers, check_arguments
from driftline.training.optimizer_rates import WRITTEN, Rates
from driftline.training.optimizer_state import KEY, RunPlace, check_state
from driftline.training.participation import Participation, layout_of, leave
from driftline.training.run_settings import RunSettings
from driftline.training.worker_names import claim_name
from driftline.training.working import create_topics

log = logging.getLogger(__name__)

SETTLE_S = 10.0
"""Seconds that `close` waits for the ledger to decide on what is under way."""

EXIT_SETTLE_S = 2.0
"""The same at the end of the process."""


class ScriptOptimizer(optim.Optimizer):
    """A member of a run that looks like the torch optimizer that it was made of.

    Args:
        torch_optimizer: new, over parameters of ``model``.
        model: whole; what the optimizer does not hold of it stays as in version 0.
        broker: where the run is.
        settings: as this script would start the run; what ``settings.chosen`` does not name is taken over from a run
            that exists. ``epochs`` needs a known number of samples and is refused.
        place: of the run, for people: Kafka's address and its name.
        worker: name of this worker; None takes that of the machine with a number, see `claim_name`.
        timeout_s: seconds that one wait for others may take.
        using: closed when this optimizer is, or cannot be made.

    Raises:
        UsageError: an argument is of a wrong type, or the name is another process's.
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
    _member: Participation | None = None
    _rates: Rates
    _config: RunConfig
    _finalizer: "weakref.finalize[..., Any]"
    _hooks: list[Any]

    def __init__(
        self,
        torch_optimizer: optim.Optimizer,
        model: nn.Module,
        broker: Broker,
        settings: RunSettings,
        *,
        place: str,
        worker: str | None = None,
        timeout_s: float = 600.0,
        using: ExitStack | None = None,
    ) -> None:
        check_arguments(torch_optimizer, model)
        offers = Offers(model, torch_optimizer, settings)
        super().__init__(torch_optimizer.param_groups, torch_optimizer.defaults)
        self.register_state_dict_post_hook(_say_place)
        self.place, self.fingerprint = place, offers.fingerprint
        self._run, self._model, self._pid = settings.run, model, os.getpid()
        self._base: Model | None = None
        self._version = -1
        self._over = ""
        self._steps = 0
        self._warned = self._touched = False
        claim = claim_name(place, worker)
        self.worker = claim.name
        self._using = using or ExitStack()
        self._using.callback(claim.release)
        try:
            self._join(broker, offers, timeout_s)
        except BaseException:
            self._using.close()
            raise

    def _join(self, broker: Broker, offers: Offers, timeout_s: float) -> None:
        told = registry.make_room(self.place, self.worker, self.fingerprint, self._model.parameters())
        if told:
            log.warning("%s", told)
        create_topics(broker, offers.settings)
        self._member = member = Participation(broker, self._run, self.worker, offers, timeout_s)
        # It holds the member, not this object, so that what the script drops is closed.
        self._finalizer = weakref.finalize(self, leave, member, self._using, self._pid, EXIT_SETTLE_S)
        try:
            self._advance(member)
        except BaseException:
            self._finalizer()
            raise
        self._hooks = watch_gradients(self._model, weakref.ref(self))
        weakref.finalize(self, _remove, self._hooks).atexit = False
        registry.register(self)
        log.info("%s", self._welcome())

    # -- what torch calls --------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, *, weight: Any = None, loss: Any = None) -> Any:
        """Contribute the gradients, wait as the mode says, and load the next version.

        Args:
            closure: called once, with gradients enabled; computes the loss and calls ``backward()``.
            weight: over how much the loss is a mean, usually the number of samples: the weight of these gradients in
                the mean over workers. 1 by default, for everybody the same.
            loss: for the ledger and whoever watches; by default what the closure returns.

        Returns:
            What the closure returned; None without one.

        Raises:
            RunEnded: the run was over before this step; `done` was set then.
            WaitTimeout: the next version did not come in time; says for whom. Another step() goes on waiting.
            UsageError: closed, or called in a forked process; or ``weight`` or ``loss`` is no number.
            RunRefused: gradients are sparse; names them.
            RunError: the run has failed, or another process has taken this worker's name.
            BrokerError: Kafka refuses to work with us.
        """
        self._check_process()
        if self._over:
            raise RunEnded(self._over)
        member = self._usable()
        if self._base is None:
            # An earlier step was interrupted while it waited; the gradients there are now belong to its version.
            self._advance(member)
            if closure is None or self._over:
                log.warning("the gradients of version %s are dropped: the step before was interrupted", self._version)
                return None
        found = None
        if closure is not None:
            with torch.enable_grad():
                found = closure()
        said = Said(
            weight=read_weight(weight),
            loss=loss_of_closure(found) if loss is None else read_loss(loss),
            scale=self._scale(),
            cursor=self._steps + 1,
        )
        self._contribute(member, said)
        self._advance(member)
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        """See torch."""
        self._touched = False
        super().zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See torch; only while the optimizer is being made.

        Raises:
            UsageError: the run has its parameter groups already.
        """
        if self._member is not None:
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
        member = self._usable()
        check_state(state_dict, self._run_place(), member.look().version)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != KEY})
        self._rates.show(self.param_groups, self._version + 1)

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
        return self._version

    @property
    def done(self) -> bool:
        """Whether the run has ended and its last version is loaded; step() raises `RunEnded` from then on."""
        return bool(self._over)

    def pull(self) -> int:
        """Load the newest version without contributing, if there is a newer one; return the version now loaded.

        Raises:
            UsageError: closed, or called in a forked process; or gradients are there that would be of two versions.
        """
        member = self._usable()
        if self._touched:
            raise UsageError(
                "pull() between backward() and step() would add up gradients of two versions; call it behind step(), "
                "or zero_grad() first"
            )
        model = None if self._over else member.startable()
        if model is not None and model.version > self._version:
            self._load(model)
        return self._version

    def close(self, timeout: float = SETTLE_S) -> int:
        """Leave the run: wait for what is under way, flush, and release everything. Idempotent.

        The model keeps the version that it has; others go on without this worker.

        Args:
            timeout: seconds to wait for the ledger to decide on contributions under way.

        Returns:
            How many records Kafka has not acknowledged; they are said in the log, too.
        """
        registry.unregister(self)
        if self._member is None or self._finalizer.detach() is None:
            return 0
        _remove(self._hooks)
        return leave(self._member, self._using, self._pid, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError(
                f"this Optimizer belongs to process {self._pid}; after a fork its threads and connections are not "
                f"here. Make it in the process that trains (worker processes of a DataLoader must not step)"
            )

    def _usable(self) -> Participation:
        self._check_process()
        if self._member is None or not self._finalizer.alive:
            raise UsageError(
                f"this Optimizer of run {self.place} is closed; if a notebook's cell was run again, use the new one"
            )
        return self._member

    def _contribute(self, member: Participation, said: Said) -> None:
        base = self._base
        if base is None:
            raise AssertionError("contribute follows advance")
        self._check_rates(base.version + 1)
        found: Gradient | str = "gradients overflowed in mixed precision"
        if not self._overflowed():
            found = gradient_of(self._model, layout_of(member.look()), said, self._config.local.clip_norm)
        self._steps += 1
        self._touched = False
        self._base = None
        if isinstance(found, str):
            log.warning("a step on version %d contributes nothing: %s", base.version, found)
            spent = member.skip(base, said.cursor, found)
        else:
            spent = member.contribute(base, found)
        if not spent:
            log.warning("the gradients of version %d come too late and are dropped", base.version)

    def _advance(self, member: Participation) -> None:
        """Wait until the next step may begin, and load what it begins on; or the end, and load the last version."""
        model = member.next_model()
        if model is not None:
            self._load(model)
            return
        state, newest = member.look(), member.newest()
        if newest is not None and newest.version > self._version:
            self._load(newest)
        ended = state.ended
        where = f"at version {ended.version} ({ended.reason})" if ended is not None else f"at version {self._version}"
        self._over = f"run {self._run} has ended {where}; leave the loop when opt.done is true, or name another run"
        log.warning("run %s has ended %s", self._run, where)

    def _load(self, model: Model) -> None:
        if self._member is None:
            raise AssertionError("a model without a member")
        state = self._member.look()
        if model.version != self._version:
            load_parameters(self._model, layout_of(state), model.flat)
        if self._version < 0 and state.config is not None:
            self._config = state.config
            self._rates = Rates(state.config, self.param_groups)
        self._version, self._base = model.version, model
        self._rates.show(self.param_groups, model.version + 1)

    def _check_rates(self, version: int) -> None:
        written = None if self._warned else self._rates.written(self.param_groups)
        if written is not None:
            self._warned = True
            group, there, counts = written
            log.warning(WRITTEN, group, there, counts, version)

    def _overflowed(self) -> bool:
        found = getattr(self, "found_inf", None)
        return found is not None and bool(float(found))

    def _scale(self) -> float:
        scale = getattr(self, "grad_scale", None)
        return 1.0 if scale is None else float(scale)

    def _run_place(self) -> RunPlace:
        start = None if self._member is None else self._member.look().start
        uuid = "" if start is None else start.run.hex()
        return RunPlace(self._run, uuid, self._version, self.fingerprint.hex())

    def _welcome(self) -> str:
        state = None if self._member is None else self._member.look()
        if state is None or state.config is None:
            return ""
        mode, others = state.config.consistency.mode, sorted(one.worker for one in state.groups.values())
        end = f"ends at version {state.config.steps}" if state.config.steps else "ends when it is stopped"
        return (
            f"worker {self.worker} of run {self.place} at version {self._version}; mode {mode}, {end}; "
            f"workers: {', '.join(others) or 'none'}"
        )


def _say_place(optimizer: optim.Optimizer, state: dict[str, Any]) -> None:
    """Add to a state where the run is; a hook of torch's ``state_dict``."""
    if isinstance(optimizer, ScriptOptimizer):
        state[KEY] = optimizer._run_place().to_dict()  # noqa: SLF001 - our own class


def _remove(hooks: list[Any]) -> None:
    while hooks:
        hooks.pop().remove()
