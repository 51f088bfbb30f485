"""What cannot be trained yet is refused at start, all of it at once, by name and with the way out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.nn.parameter import UninitializedBuffer

from driftline.errors import ConfigError
from driftline.training.model.layout import describe


class Holder(nn.Module):
    """A model of given parameters."""

    def __init__(self, **parameters: nn.Parameter) -> None:
        super().__init__()
        for name, parameter in parameters.items():
            setattr(self, name, parameter)


def refusals(model: nn.Module, optimizer: optim.Optimizer | None = None) -> tuple[str, ...]:
    """Return the problems that a model is refused with."""
    with pytest.raises(ConfigError) as refused:
        describe(model, optimizer or optim.SGD(model.parameters(), lr=0.1), partitions=4)
    return refused.value.problems


def shared() -> Holder:
    """Two parameters that look at the same memory."""
    tensor = torch.zeros(3)
    return Holder(a=nn.Parameter(tensor), b=nn.Parameter(tensor))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Holder(w=nn.Parameter(torch.zeros(2, dtype=torch.float64))), ("w is float64", "model.float()")),
        (lambda: Holder(w=nn.Parameter(torch.zeros(2).int(), requires_grad=False)), ("w is int32", "model.float()")),
        (lambda: Holder(w=nn.Parameter(torch.zeros(2, dtype=torch.complex64))), ("w is complex64", "two float32")),
        (lambda: nn.Sequential(nn.LazyLinear(3)), ("0.weight has no shape yet", "one batch through")),
        (lambda: Holder(w=nn.Parameter(torch.zeros(2, device="meta"))), ("w is on the meta device", "real device")),
        (lambda: Holder(w=nn.Parameter(torch.zeros(1).expand(5))), ("w is expanded", "clone()")),
        (lambda: Holder(w=nn.Parameter(torch.zeros(2, 2).to_sparse())), ("w is stored as", "to_dense()")),
        (shared, ("a and b share memory", "one Parameter")),
    ],
    ids=["float64", "int32", "complex", "lazy", "meta", "expanded", "sparse", "shared memory"],
)
def test_a_parameter_that_cannot_be_trained_is_named(build: Callable[[], nn.Module], words: tuple[str, str]) -> None:
    """With what to do instead."""
    problem = refusals(build())[0]
    assert all(word in problem for word in words), problem


class Buffered(nn.Linear):
    """A layer with one buffer."""

    def __init__(self, buffer: torch.Tensor) -> None:
        super().__init__(2, 2)
        self.register_buffer("mask", buffer)


def of_the_bias() -> Buffered:
    """A buffer that looks at the memory of a parameter."""
    model = Buffered(torch.zeros(2))
    model.mask = model.bias.detach()
    return model


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Buffered(torch.zeros(2, dtype=torch.float8_e4m3fn)), ("float8_e4m3fn", "persistent=False")),
        (lambda: Buffered(torch.zeros(2, device="meta")), ("on the meta device", "real device")),
        (lambda: Buffered(torch.zeros(1).expand(5)), ("is expanded", "clone()")),
        (lambda: Buffered(torch.zeros(2, 2).to_sparse()), ("is stored as torch.sparse_coo", "to_dense()")),
        (of_the_bias, ("shares the memory of bias", "clone()")),
        (lambda: Buffered(UninitializedBuffer()), ("has no shape yet", "one batch through")),
    ],
    ids=["float8", "meta", "expanded", "sparse", "shared memory", "lazy"],
)
def test_a_buffer_that_cannot_be_sent_is_named(build: Callable[[], nn.Module], words: tuple[str, str]) -> None:
    """With its owner, and with what to do instead."""
    (problem,) = refusals(build())
    assert problem.startswith("buffer mask ")
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize(
    "model",
    [Holder(w=nn.Parameter(torch.zeros(2), requires_grad=False)), Holder(empty=nn.Parameter(torch.empty(0, 4)))],
)
def test_a_model_without_anything_to_train_is_refused_in_one_message(model: nn.Module) -> None:
    """All frozen, or only an empty parameter."""
    (problem,) = refusals(model)
    assert "no trainable parameter" in problem


def test_a_model_whose_parameters_the_optimizer_does_not_hold_is_refused() -> None:
    """As when the optimizer was built from another model."""
    problems = refusals(nn.Linear(2, 3), optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1))
    assert "parameter 0 of group 0, of shape (3, 2), is not in the model" in problems[0]
    assert "no trainable parameter" in problems[2]


def test_a_model_of_another_dtype_is_refused_in_one_line() -> None:
    """With three of its names, and advice that a script can follow."""
    (problem,) = refusals(nn.Sequential(*(nn.Linear(2, 2) for _ in range(3))).double())
    assert problem == (
        "0.weight, 0.bias, 1.weight and 3 more: parameters are float64, and trained are float32, bfloat16, float16; "
        "call model.float() before the optimizer is made"
    )


def test_extra_state_is_refused_by_name() -> None:
    """`load_state_dict` of what the run holds would fail for want of it."""

    class Counting(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"calls": 1}

    (problem,) = refusals(nn.Sequential(nn.Linear(2, 2), Counting(2, 2)))
    assert problem.startswith("module 1 has extra state (get_extra_state)")


def test_a_parameter_that_is_spread_over_devices_is_refused_by_name() -> None:
    """By its kind: a DTensor of torch.distributed has a mesh."""
    model = nn.Linear(2, 2)
    model.weight.device_mesh = "a mesh"  # type: ignore[attr-defined]
    (problem,) = refusals(model)
    assert problem.startswith("parameter weight is a Parameter, spread over devices")


def test_every_problem_is_listed_at_once() -> None:
    """Model and optimizer together."""
    model = nn.Sequential(nn.Linear(2, 2).double(), nn.BatchNorm1d(2))
    problems = refusals(model, optim.RMSprop(model.parameters()))
    assert len(problems) == 1 + 1
    assert "RMSprop has no update rule" in problems[-1]
