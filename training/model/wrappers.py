"""Names of a model's tensors without what torch's wrappers add: a wrapped model trains together with a plain one.

A wrapper is known by its class, never by the text of a name: a submodule of the user may be called ``module``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from torch import nn

_INNER: Final = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "OptimizedModule": "_orig_mod",  # torch.compile
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
}
"""Class of torch → the attribute that holds the wrapped module. Most of them are costly to import."""


def names_of(model: nn.Module) -> Callable[[str], str]:
    """Return what turns a name of this model's tensors into that of the plain model."""
    dropped = {
        f"{path}.{inner}".lstrip(".")
        for path, module in model.named_modules(remove_duplicate=False)
        if (inner := _inner(module))
    }
    return (lambda name: name) if not dropped else (lambda name: _without(name, dropped))


def state_for(model: nn.Module, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a plain model under the names that ``model.load_state_dict`` takes."""
    plain = names_of(model)
    named = {key: state[plain(key)] for key in model.state_dict() if plain(key) in state}
    used = {plain(key) for key in named}
    return named | {key: value for key, value in state.items() if key not in used}


def _inner(module: nn.Module) -> str:
    kinds = (kind for kind in type(module).__mro__ if kind.__module__.partition(".")[0] == "torch")
    return next((_INNER[kind.__name__] for kind in kinds if kind.__name__ in _INNER), "")


def _without(name: str, dropped: set[str]) -> str:
    parts = name.split(".")
    return ".".join(part for place, part in enumerate(parts) if ".".join(parts[: place + 1]) not in dropped)
