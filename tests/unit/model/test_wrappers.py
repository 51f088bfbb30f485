"""Wrapped models have the names of plain ones, and a user's own names stay whatever they are."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from driftline.training.model.tensors import named_buffers, named_tensors
from driftline.training.model.wrappers import state_for


class Own(nn.Module):
    """A model whose submodules have the names that wrappers use."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)
        self._orig_mod = nn.BatchNorm1d(2)


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "compiled": torch.compile,  # type: ignore[dict-item]
    "DataParallel": nn.DataParallel,
    "checkpoint": checkpoint_wrapper,
    "twice": lambda model: nn.DataParallel(checkpoint_wrapper(model)),
    "inside": lambda model: nn.Sequential(checkpoint_wrapper(model)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapped_model_has_the_names_of_the_plain_one(wrap: Callable[[nn.Module], nn.Module]) -> None:
    """Parameters and buffers, those of submodules with a wrapper's name included."""
    plain = nn.Sequential(Own()) if wrap is WRAPPERS["inside"] else Own()
    wrapped = wrap(Own())
    assert [one.name for one in named_tensors(wrapped)] == [one.name for one in named_tensors(plain)]
    assert [one.name for one in named_buffers(wrapped)] == [one.name for one in named_buffers(plain)]
    names = {one.name for one in named_tensors(plain)} | {one.name for one in named_buffers(plain)}
    assert names == plain.state_dict().keys()


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapped_model_loads_the_state_of_a_plain_one(wrap: Callable[[nn.Module], nn.Module]) -> None:
    """Strictly: with no name missing and none left over."""
    plain, wrapped = Own(), wrap(Own())
    state = {f"0.{name}" if wrap is WRAPPERS["inside"] else name: one for name, one in plain.state_dict().items()}
    wrapped.load_state_dict(state_for(wrapped, state))
    for one, other in zip(wrapped.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_state_that_does_not_fit_is_refused_by_torch() -> None:
    """Nothing that is left over or missing is hidden."""
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*bias.*Unexpected key.*other"):
        model.load_state_dict(state_for(model, {"weight": torch.zeros(2, 2), "other": torch.zeros(1)}))
