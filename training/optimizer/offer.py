"""What a script brings to a run: its model, the rule of its optimizer, and the settings that were chosen."""

import multiprocessing
from dataclasses import replace

from torch import nn, optim

from driftline.config.freezing import FROZEN, adopted_by_script, freeze
from driftline.config.run_settings import RunSettings
from driftline.errors import ConfigError, UsageError
from driftline.producers.proposal import Offer
from driftline.schemas.model.layout import Layout
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.training.model.layout import describe, flatten_parameters

WORKERS = 1
"""Workers that a run of scripts waits for by default: only the script that begins it."""

NO_END = 0
"""Steps of a run of scripts by default: it lasts as long as their own loops."""


def check_arguments(torch_optimizer: object, model: object) -> None:
    """Return if these can be wrapped.

    Raises:
        UsageError: says what is wrong, and what to give instead.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}, not a torch.nn.Module")
    if not isinstance(torch_optimizer, optim.Optimizer):
        raise UsageError(
            f"the first argument is a {type(torch_optimizer).__name__}, not a torch optimizer; write "
            f"driftline.Optimizer(torch.optim.AdamW(model.parameters()), model, …)"
        )
    if any("initial_lr" in group for group in torch_optimizer.param_groups):
        raise UsageError(
            "the torch optimizer has a learning rate scheduler already, which may have changed its rates; make the "
            "driftline.Optimizer first, and then a scheduler of it"
        )


def check_process() -> None:
    """Return unless a child of multiprocessing is importing the script, to find what it shall run.

    Raises:
        UsageError: it is; says where the optimizer belongs.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            "driftline.Optimizer is made while a process that multiprocessing has started imports the script: each "
            "worker process of a DataLoader would join the run. Make it under if __name__ == '__main__', as the loop is"
        )


class Offers:
    """Makes the offers of one script. The rule is read once: what is shown in ``param_groups`` later is the run's.

    Args:
        model: whole.
        optimizer: new, over parameters of the model.
        settings: see `ScriptOptimizer`.

    Raises:
        ConfigError: lists everything that cannot be trained, by name.
    """

    def __init__(self, model: nn.Module, optimizer: optim.Optimizer, settings: RunSettings) -> None:
        self.settings = _of_a_script(settings)
        self._model = model
        self._layout, self._rule = describe(model, optimizer, self.settings.partitions)
        _freeze(self.settings, self._rule)

    @property
    def fingerprint(self) -> bytes:
        """Of the model's layout, whatever the run's partitions are."""
        return Layout(self._layout.segments, 1).fingerprint()

    def __call__(self, existing: RunConfig | None) -> Offer:
        """Return what to start the run with, and what it must fit; ``existing`` are the settings of a run that exists.

        Raises:
            RunRefused: something was chosen that the run has otherwise; lists all of it.
        """
        settings = self.settings if existing is None else adopted_by_script(self.settings, existing)
        config = _freeze(settings, self._rule)
        layout = Layout(self._layout.segments, config.partitions)
        return Offer(config=config, layout=layout, masters=flatten_parameters(self._model, layout))


def _freeze(settings: RunSettings, rule: RuleConfig) -> RunConfig:
    config = freeze(settings, rule, samples=settings.samples, batch_size=settings.batch_size)
    check_local(config)
    return config


def check_local(config: RunConfig) -> None:
    """Return if a script can do what a worker of this run does in one clock.

    Raises:
        ConfigError: it cannot; says why.
    """
    problems = []
    if config.local.steps > 1:
        problems.append(
            f"local_steps: {config.local.steps}, but a script makes its own steps; only tasks have local ones"
        )
    if config.local.clock_s:
        problems.append(f"clock: {config.local.clock_s:g} s, but a script decides itself how long a step takes; give 0")
    if problems:
        raise ConfigError(problems)


def _of_a_script(settings: RunSettings) -> RunSettings:
    if settings.epochs is not None and not settings.samples:
        problem = (
            "epochs: how many samples a script reads is not known here; give samples=len(dataset) and read them by a "
            "driftline.Sampler, give steps, or let its loop say when to end"
        )
        raise ConfigError([problem])
    chosen = FROZEN.keys() if settings.chosen is None else settings.chosen
    return replace(
        settings,
        workers=settings.workers if "workers" in chosen else WORKERS,
        steps=settings.steps if settings.epochs is not None or "steps" in chosen else NO_END,
    )
