"""Whether a model still holds the weights that a version has put into it.

A gradient belongs to a version. If a script changes weights itself, the gradient is one of weights that no version has,
and the next version overwrites the change. torch's version counters do not see writes through ``.data``, so a sample of
every parameter is compared, bit by bit.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from driftline.training.model.tensors import named_tensors

SAMPLES = 64
"""Elements of a parameter that are compared, evenly spread over it; all of a small one."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    name: str
    parameter: nn.Parameter
    places: tuple[torch.Tensor, ...]
    bits: torch.Tensor


class LoadedWeights:
    """Samples of the parameters of a model, as a version has left them.

    Args:
        model: that versions are loaded into.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._sampled: list[_Sampled] = []

    def note(self) -> None:
        """Remember what is there now."""
        places = {one.name: one.places for one in self._sampled}
        self._sampled = [
            _Sampled(named.name, named.parameter, at, _bits(named.parameter, at))
            for named in named_tensors(self._model)
            for at in [places.get(named.name) or _places(named.parameter)]
        ]

    def changed(self) -> list[str]:
        """Return the names of the parameters that are no longer what they were."""
        return [one.name for one in self._sampled if not torch.equal(_bits(one.parameter, one.places), one.bits)]


def _places(parameter: nn.Parameter) -> tuple[torch.Tensor, ...]:
    """Return the indices of the sampled elements, one tensor a dimension: right for any strides."""
    count = parameter.numel()
    chosen = np.unique(np.linspace(0, max(0, count - 1), min(count, SAMPLES), dtype=np.int64))
    at: Any = np.unravel_index(chosen, tuple(parameter.shape)) if parameter.ndim and count else ()
    return tuple(torch.from_numpy(np.ascontiguousarray(one)).to(parameter.device) for one in at)


def _bits(parameter: nn.Parameter, places: tuple[torch.Tensor, ...]) -> torch.Tensor:
    values = parameter.detach()
    sample = values[places] if places else values.reshape(-1).clone()
    return sample.contiguous().view(torch.uint8)
