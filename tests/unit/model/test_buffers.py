"""Buffers go from the model to the flat vector and back as they are, whatever their bytes are as numbers."""

import numpy as np
import pytest
import torch
from torch import nn, optim

from driftline.errors import RunRefused
from driftline.producers.deltas import Gradient
from driftline.schemas.model.layout import Layout
from driftline.training.model.gradients import with_buffers
from driftline.training.model.layout import FlatArray, describe, flatten_parameters, load_parameters


class Buffers(nn.Module):
    """A layer, and every kind of buffer."""

    mask: torch.Tensor | None
    bytes: torch.Tensor
    images: torch.Tensor
    again: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.tied = nn.Module()
        self.tied.register_buffer("mean", self.norm.running_mean)
        self.register_buffer("mask", torch.tensor([True, False, True, True, False]))
        self.register_buffer("causal", torch.full((2, 2), -torch.inf).triu(1))
        self.register_buffer("bytes", torch.arange(7, dtype=torch.uint8))
        self.register_buffer("wide", torch.tensor([[1e300, -0.0, torch.nan]], dtype=torch.float64))
        self.register_buffer("tenth", torch.tensor(0.1, dtype=torch.bfloat16))
        self.register_buffer("waves", torch.tensor([1 + 2j, -3j], dtype=torch.complex64))
        self.register_buffer("images", torch.arange(24).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last))
        self.register_buffer("empty", torch.empty(0, 4, dtype=torch.int64))
        self.register_buffer("nothing", None)
        self.register_buffer("again", torch.ones(9), persistent=False)


def batch_through(model: Buffers) -> None:
    """Change the running statistics."""
    model.norm(model.linear(torch.randn(5, 2)))


def buffers() -> tuple[Buffers, Layout]:
    """Return a model and its layout."""
    model = Buffers()
    return model, describe(model, optim.SGD(model.parameters(), lr=0.1), partitions=3)[0]


def bytes_of(model: nn.Module) -> dict[str, bytes]:
    """Return every tensor of a state_dict as its dtype, its shape and its bytes."""
    return {
        name: f"{tensor.dtype}{tuple(tensor.shape)}".encode()
        + tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, tensor in model.state_dict().items()
    }


def test_buffers_follow_the_parameters_with_dtype_and_shape() -> None:
    """Those of a state_dict: what is not persistent is no part of the model's state."""
    model, layout = buffers()
    found = [(one.name, one.dtype, one.shape, one.words) for one in layout.segments if one.kind == "buffer"]
    assert found == [
        ("mask", "bool", (5,), 2),
        ("causal", "float32", (2, 2), 4),
        ("bytes", "uint8", (7,), 2),
        ("wide", "float64", (1, 3), 6),
        ("tenth", "bfloat16", (), 1),
        ("waves", "complex64", (2,), 4),
        ("images", "int64", (1, 2, 3, 4), 48),
        ("empty", "int64", (0, 4), 0),
        ("norm.running_mean", "float32", (3,), 3),
        ("norm.running_var", "float32", (3,), 3),
        ("norm.num_batches_tracked", "int64", (), 2),
    ]
    kinds = [one.kind for one in layout.segments]
    assert kinds == ["parameter"] * 4 + ["buffer"] * 11
    assert {one.group for one in layout.segments if one.kind == "buffer"} == {-1}
    assert {one.name: one.aliases for one in layout.segments}["norm.running_mean"] == ("tied.mean",)
    names = {name for one in layout.segments for name in (one.name, *one.aliases)}
    assert names == set(model.state_dict())


def test_a_model_that_is_loaded_has_the_bits_of_the_one_that_was_flattened() -> None:
    """Dtypes and shapes too, from memory that cannot be written and begins at any byte."""
    source, layout = buffers()
    batch_through(source)
    nan_nan_denormal = torch.tensor([0x7FA0_0001, 0x7FC1_2345, 0x0000_0001], dtype=torch.int32).view(torch.float32)
    source.norm.running_mean = source.tied.mean = nan_nan_denormal
    flat = flatten_parameters(source, layout)
    target, _ = buffers()
    for buffer in target.buffers():
        buffer.zero_()
    load_parameters(target, layout, np.frombuffer(b"?" + flat.tobytes(), np.float32, offset=1))
    assert bytes_of(target) == bytes_of(source)
    assert flatten_parameters(target, layout).tobytes() == flat.tobytes()
    assert target.again.tolist() == [0.0] * 9


def test_the_bytes_are_little_endian_in_c_order_filled_up_with_zeros() -> None:
    """The layout is enough to read them."""
    model, layout = buffers()
    flat = flatten_parameters(model, layout)
    raw = {one.name: flat[one.offset : one.stop].astype("<f4").tobytes() for one in layout.segments}
    assert raw["mask"] == bytes([1, 0, 1, 1, 0, 0, 0, 0])
    assert raw["bytes"] == bytes([*range(7), 0])
    assert np.frombuffer(raw["images"], "<i8").tolist() == list(range(24))
    assert np.frombuffer(raw["wide"], "<f8")[0] == 1e300


def test_loading_is_in_place() -> None:
    """Same object, same memory, same strides: modules keep seeing their buffer."""
    model, layout = buffers()
    before = [(id(one), one.data_ptr(), one.stride()) for one in model.buffers()]
    load_parameters(model, layout, flatten_parameters(Buffers(), layout))
    assert [(id(one), one.data_ptr(), one.stride()) for one in model.buffers()] == before
    assert not model.images.is_contiguous()


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (torch.zeros(5, dtype=torch.uint8), "mask: dtype uint8 here, bool in the run"),
        (torch.zeros(4, dtype=torch.bool), "mask: shape (4,) here, (5,) in the run"),
        (None, "mask: in the run, not in this model"),
    ],
)
def test_a_model_with_other_buffers_is_refused_by_name(other: torch.Tensor | None, line: str) -> None:
    """As one with other parameters is, and left as it was."""
    model, layout = buffers()
    model.mask = other
    with pytest.raises(RunRefused) as refused:
        load_parameters(model, layout, np.zeros(layout.elements, np.float32))
    assert line in str(refused.value)
    assert bool(model.linear.weight.any())


def test_a_buffer_is_no_frozen_parameter() -> None:
    """One is taken over from a contribution, the other never changes."""
    held, layout = nn.Linear(1, 1, bias=False), None
    held.register_buffer("scale", torch.ones(1))
    layout, _ = describe(held, optim.SGD(held.parameters(), lr=0.1), 1)
    other = nn.Linear(1, 1, bias=False)
    other.scale = nn.Parameter(torch.ones(1), requires_grad=False)
    with pytest.raises(RunRefused, match="scale: kind parameter here, buffer in the run"):
        load_parameters(other, layout, np.zeros(2, np.float32))


# -- in a contribution -----------------------------------------------------------------------------------------------


def contribution(model: Buffers, layout: Layout, base: FlatArray) -> Gradient | str:
    """Return a gradient of ones with the model's buffers."""
    flat = np.zeros(layout.elements, np.float32)
    flat[: layout.segments[3].stop] = 1.0
    presence = [one.kind == "parameter" for one in layout.segments]
    presence[0] = False
    return with_buffers(model, layout, base, Gradient(flat=flat, presence=presence, weight=1.0, loss=0.0, cursor=1))


def test_a_contribution_has_the_values_of_buffers_after_the_clock() -> None:
    """Not what changed: a counter of the version before plus one. Gradients stay as they are."""
    model, layout = buffers()
    base = flatten_parameters(model, layout)
    batch_through(model)
    found = contribution(model, layout, base)
    assert isinstance(found, Gradient)
    now, first = flatten_parameters(model, layout), layout.segments[4].offset
    assert found.flat[first:].tobytes() == now[first:].tobytes() != base[first:].tobytes()
    assert found.flat[:first].tolist() == [1.0] * first
    assert list(found.presence) == [False] + [True] * 14


def test_a_buffer_that_a_clock_has_broken_keeps_the_contribution_back() -> None:
    """By name; what was never finite may stay so, and an integer always is."""
    model, layout = buffers()
    base = flatten_parameters(model, layout)
    assert isinstance(contribution(model, layout, base), Gradient)
    assert model.norm.running_var is not None
    model.norm.running_var[1] = torch.inf
    model.bytes.fill_(255)
    assert contribution(model, layout, base) == "not finite: norm.running_var"
