"""The steps of a script: which version its model holds, what the next step begins with, and how the run ended."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import nn

from driftline.errors import RunRefused, UsageError
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient, NoGradient
from driftline.producers.session import WorkerSession
from driftline.runtime.outcome import check_finish
from driftline.schemas.model.dtypes import FROZEN
from driftline.schemas.records.sample_range import Samples
from driftline.training.model.layout import ModelDiffers, bound, load_parameters
from driftline.training.optimizer.drawing import Drawing, still_leased
from driftline.training.optimizer.gradient import StepReport, first_gradient, gradient_of
from driftline.training.optimizer.loaded import LoadedWeights
from driftline.training.optimizer.rates import OTHER_WRITTEN, WRITTEN, Rates
from driftline.training.optimizer.state import RunPosition
from driftline.training.worker.participation import Participation

LOST = "its samples are no longer leased to this worker, which was removed meanwhile"

LEFT_OVER = (
    "gradients of an earlier iteration over the Sampler went into this step, too, and their samples count as not used: "
    "they are read again, or discarded; make a step of what is left at the end of an iteration, or call zero_grad() "
    "there"
)

CHANGED_WEIGHTS = (
    "{names}: changed since version {version} was loaded, by load_state_dict() or in place, so their gradient is that "
    "of weights that no version has. Load weights before driftline.Optimizer is made, because a new run begins with "
    "them; weights of a run change by its steps alone"
)
CHANGED_MODEL = (
    "this model has changed since it joined the run. If a buffer gets its shape in the first forward pass, run one "
    "batch through the model before driftline.Optimizer is made, or register the buffer with persistent=False:"
)
LEARNS_NOT = (
    "%s: gets gradients, but is frozen in this run, because it needed none when the run was made; its values stay. A "
    "new run that is made after requires_grad_(True) trains it"
)
SHOWN = 3
"""Names in a message."""

log = logging.getLogger(__name__)

Groups: TypeAlias = list[dict[str, Any]]


class Steps:
    """The steps of one member on its model. The model changes in `advance` and `pull` alone.

    Args:
        member: of the run, just joined.
        model: fits the run.
        groups: returns the optimizer's ``param_groups``.

    Attributes:
        member: of the run.
        version: of the model's parameters; -1 before the first `advance`.
        count: of the steps that were made here.
        over: why there are no more steps; empty while there are.
        drawing: what a Sampler has drawn; None without one.
        empty_passes: of Samplers that have begun after the run's end.
        has_gradients: whether there are gradients that no step has contributed.
    """

    def __init__(self, member: Participation, model: nn.Module, groups: Callable[[], Groups]) -> None:
        self.member = member
        self.version = -1
        self.count = 0
        self.over = ""
        self.drawing: Drawing | None = None
        self.empty_passes = 0
        self.has_gradients = False
        self._model, self._groups = model, groups
        self._base: Model | None = None
        self._left_over: torch.Tensor | None = None
        self._rates: Rates | None = None
        self._loaded = LoadedWeights(model)
        self._frozen: list[tuple[str, nn.Parameter]] = []
        self._warned: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether a step may begin on the model's parameters."""
        return self._base is not None

    # -- versions ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Wait until the next step may begin, and load what it begins with; at the run's end, load its last version.

        Raises:
            Whatever `Participation.next_model` raises.
            MemberRemoved: another process has taken this worker's name.
            RunRefused: the run has other settings or another model; says which.
            RunError: the run ended with a failure.
            IntegrityError: the log contradicts itself.
        """
        model = self.member.next_model()
        if model is not None:
            self._load(model)
            return
        if self.member.finish is not None:
            check_finish(self.member.finish)
        newest, ended = self.member.last_model(), self.member.state.ended
        if newest is not None and newest.version > self.version:
            self._load(newest)
        self._base = None
        where = f"at version {self.version}" if ended is None else f"at version {ended.version} ({ended.reason})"
        self.over = f"the run has ended {where}; leave the loop when opt.done is true, or name another run"
        log.info("the run has ended %s", where)

    def pull(self) -> None:
        """Load the newest version that a step may begin with, if it is newer."""
        model = self.member.ask(WorkerSession.may_start)
        if model is not None and model.version > self.version:
            self._load(model)

    def _load(self, model: Model) -> None:
        if model.version != self.version:
            with self._still_that_model():
                load_parameters(self._model, self.member.state.layout, model.flat)
            self._loaded.note()
        if self.version < 0:
            pairs = bound(self._model, self.member.state.layout)
            self._frozen = [(segment.name, parameter) for segment, parameter in pairs if segment.kind == FROZEN]
        self.version, self._base = model.version, model
        self.show_rates()

    @contextmanager
    def _still_that_model(self) -> Iterator[None]:
        """Explain a model that no longer fits: it did when this script joined."""
        try:
            yield
        except ModelDiffers as error:
            if self.version < 0:
                raise
            raise RunRefused(f"{CHANGED_MODEL}\n{error.details}") from None

    # -- one step ----------------------------------------------------------------------------------------------------

    def send_gradients(self, report: StepReport) -> None:
        """Spend the step that is open: collect the model's gradients and send them, or why there are none.

        Raises:
            UsageError: the script has changed weights itself, a rate in ``param_groups`` cannot be used, or the run
                leases samples and this script has drawn none; the step is not spent.
        """
        base = self._base
        if base is None:
            raise AssertionError("a step is spent once")
        self._check_weights()
        self.has_gradients = False
        self._warn_of_frozen()
        self._warn_of_left_over_gradients()
        samples = self._take_samples()
        self.check_rates()
        rates = () if self._rates is None else self._rates.asked_for(self._groups())
        lost = "" if self.still_leased(samples) else LOST
        found = lost or report.overflow or self._collect(base, report)
        self.count += 1
        self._base = None
        result: Gradient | NoGradient
        if isinstance(found, str):
            log.warning("a step on version %d contributes nothing: %s", base.version, found)
            result = NoGradient(found, () if lost else samples, self.count)
        else:
            result = replace(found, learning_rates=rates, samples=samples)
        if not self.member.spend_clock(base, result):
            log.warning("the gradients of version %d come too late and are dropped", base.version)

    def _collect(self, base: Model, report: StepReport) -> Gradient | str:
        state = self.member.state
        clip_norm = state.config.local.clip_norm
        with self._still_that_model():
            return gradient_of(self._model, state.layout, base.flat, report, self.count + 1, clip_norm)

    def _check_weights(self) -> None:
        changed = self._loaded.changed()
        if changed:
            more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            raise UsageError(CHANGED_WEIGHTS.format(names=f"{', '.join(changed[:SHOWN])}{more}", version=self.version))

    def _warn_of_frozen(self) -> None:
        """Warn once of parameters that get gradients although the run was made without."""
        names = [name for name, parameter in self._frozen if parameter.grad is not None]
        if names:
            self._warn_once("frozen", LEARNS_NOT, ", ".join(names[:SHOWN]))

    @property
    def is_empty(self) -> bool:
        """Whether no backward pass has made a gradient, and those that were put there are all zero."""
        if self.has_gradients:
            return False
        found = [one.grad for one in self._model.parameters() if one.grad is not None]
        return bool(found) and not any(bool(one.count_nonzero()) for one in found)

    def _warn_once(self, topic: str, words: str, *values: object) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            log.warning(words, *values)

    def skip(self, reason: str, samples: Samples) -> None:
        """Spend a clock without a gradient, so that the others can go on, and load the version that they make."""
        if not self.is_open:
            self.advance()
        if self._base is not None:
            self.member.spend_clock(self._base, NoGradient(reason, samples, self.count))
            self._base = None
            self.advance()

    # -- gradients that no step has used -----------------------------------------------------------------------------

    def touch(self) -> None:
        """Note that a backward pass has made a gradient."""
        self.has_gradients = True

    def forget_gradients(self) -> None:
        """Note that the gradients were set to zero, or to None."""
        self.has_gradients, self._left_over = False, None

    def note_pass(self) -> None:
        """Note, at the beginning of a pass, whether there are gradients of samples that no step has used."""
        if self.has_gradients and self.has_drawn:
            self._left_over = first_gradient(self._model)

    def _warn_of_left_over_gradients(self) -> None:
        """Gradients that were set to None meanwhile are others, even if it was the model that did so."""
        if self._left_over is not None and self._left_over is first_gradient(self._model):
            log.warning("%s", LEFT_OVER)
        self._left_over = None

    # -- samples -----------------------------------------------------------------------------------------------------

    @property
    def has_drawn(self) -> bool:
        """Whether samples are drawn that no step was made on."""
        return self.drawing is not None and self.drawing.waiting > 0

    def still_leased(self, samples: Samples) -> bool:
        """Whether samples that were drawn may still be used."""
        return still_leased(samples, self.member.ask(lambda session: session.samples))

    def drop_read_ahead(self) -> bool:
        """Drop the samples of a step after the run's end that the loader had read ahead; False if there are none."""
        if self.drawing is None or not self.has_drawn:
            return False
        log.info("samples that the loader had read ahead are dropped: %s", self.over)
        self.drawing.take()
        return True

    def _take_samples(self) -> Samples:
        if self.drawing is not None:
            return self.drawing.take()
        if self.member.state.leases.is_on:
            raise UsageError(
                "this run leases its samples, and this script draws none: read the data by "
                "DataLoader(data, …, sampler=driftline.Sampler(opt, data)), or make a run without samples="
            )
        return ()

    # -- rates -------------------------------------------------------------------------------------------------------

    def check_rates(self) -> None:
        """Warn once if a script writes into ``param_groups`` what does not count: a rate, or another number."""
        if self._rates is None:
            return
        written = self._rates.written(self._groups())
        if written is not None:
            self._warn_once("rate", WRITTEN, *written, self.version + 1)
        for group, name, before, now in self._rates.other_changes(self._groups()):
            self._warn_once(name, OTHER_WRITTEN, group, name, before, now)

    def show_rates(self) -> None:
        """Write the rates of the next version into ``param_groups``, unless they are the script's."""
        if self._rates is None:
            self._rates = Rates(self.member.state.config, self._groups())
        self._rates.show(self._groups(), self.version + 1)

    # -- descriptions ------------------------------------------------------------------------------------------------

    def position(self, fingerprint: str) -> RunPosition:
        """Return the version of the run that the model holds."""
        start = self.member.state.start
        return RunPosition(start.name, start.run.hex(), self.version, fingerprint)

    def summary(self) -> str:
        """Return what was joined, in a line."""
        state = self.member.state
        if state.ended is not None:
            return f"holds version {self.version}, with which the run has ended"
        config, workers = state.config, ", ".join(sorted(one.worker for one in state.groups.values()))
        epochs = f"ends after {config.data.epochs} epochs" if config.data.epochs else "ends when it is stopped"
        end = f"ends at version {config.steps}" if config.steps else epochs
        begins = f"goes on with the run at version {self.version}" if self.version else "begins at version 0"
        return f"{begins}; mode {config.consistency.mode}; {end}; workers {workers}"
