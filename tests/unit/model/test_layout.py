"""A model goes to a flat vector and comes back, whatever its tensors look like in memory."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn, optim

from driftline.errors import RunRefused
from driftline.schemas.model.layout import Layout
from driftline.training.model.layout import FlatArray, describe, flatten_parameters, load_parameters


class Odd(nn.Module):
    """Every kind of parameter that is trained today, in one model."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, kernel_size=(2, 4)).to(memory_format=torch.channels_last)
        self.encoder = nn.Linear(6, 7, bias=False)
        self.decoder = nn.Linear(6, 7, bias=False)
        self.decoder.weight = self.encoder.weight
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.empty(0, 4))
        self.frozen = nn.Parameter(torch.arange(4.0), requires_grad=False)
        self.slice = nn.Parameter(torch.arange(1000.0).reshape(10, 100)[2:4, 1::50])
        self.transposed = nn.Parameter(torch.arange(6.0).reshape(2, 3).T)


def odd(groups: int = 1) -> tuple[Odd, Layout]:
    """Return a model with its layout; with two groups, biases and scalars are in the second."""
    model = Odd()
    sets = [[p for p in model.parameters() if groups == 1 or (p.ndim < 2) == second] for second in (False, True)]
    optimizer = optim.SGD([{"params": chosen} for chosen in sets[:groups]], lr=0.1)
    return model, describe(model, optimizer, partitions=4)[0]


def counted(layout: Layout) -> FlatArray:
    """Return a vector whose elements are their own places."""
    return np.arange(layout.elements, dtype=np.float32)


def test_segments_follow_the_model_and_keep_shape_names_and_kind() -> None:
    """Scalars stay (), empty parameters (0, 4), tied names are aliases, all in the order of named_parameters()."""
    _, layout = odd()
    found = {segment.name: (segment.shape, segment.kind, segment.aliases) for segment in layout.segments}
    assert list(found.items()) == [
        ("temperature", ((), "parameter", ())),
        ("empty", ((0, 4), "parameter", ())),
        ("frozen", ((4,), "frozen", ())),
        ("slice", ((2, 2), "parameter", ())),
        ("transposed", ((3, 2), "parameter", ())),
        ("conv.weight", ((5, 3, 2, 4), "parameter", ())),
        ("conv.bias", ((5,), "parameter", ())),
        ("encoder.weight", ((7, 6), "parameter", ("decoder.weight",))),
    ]


def test_parameter_groups_are_those_of_the_optimizer() -> None:
    """Their order does not move a segment."""
    _, one = odd()
    _, two = odd(groups=2)
    assert [segment.name for segment in one.segments] == [segment.name for segment in two.segments]
    assert {segment.name: segment.group for segment in two.segments} == {
        "temperature": 1,
        "empty": 0,
        "frozen": 1,
        "slice": 0,
        "transposed": 0,
        "conv.weight": 0,
        "conv.bias": 1,
        "encoder.weight": 0,
    }


def test_what_the_optimizer_does_not_hold_is_frozen_and_in_no_group() -> None:
    """Also when it would take a gradient."""
    model = nn.Linear(2, 3)
    layout, _ = describe(model, optim.SGD([model.weight], lr=0.1), partitions=1)
    assert [(s.name, s.kind, s.group) for s in layout.segments] == [("weight", "parameter", 0), ("bias", "frozen", -1)]


def test_the_vector_holds_c_order_of_logical_shapes() -> None:
    """Strides, as of channels-last, never reach the wire."""
    model, layout = odd()
    assert not model.conv.weight.is_contiguous()
    flat = flatten_parameters(model, layout)
    tensors = dict(model.named_parameters())
    for segment in layout.segments:
        expected = [float(value) for value in tensors[segment.name].detach().flatten()]
        assert flat[segment.offset : segment.stop].tolist() == expected


def test_loading_and_flattening_give_the_vector_back() -> None:
    """Bit for bit, with NaN, infinities, -0.0 and denormals in it."""
    model, layout = odd()
    flat = counted(layout)
    flat[:5] = [np.nan, np.inf, -np.inf, -0.0, 1e-45]
    load_parameters(model, layout, flat)
    assert flatten_parameters(model, layout).tobytes() == flat.tobytes()


def test_loading_is_in_place() -> None:
    """Optimizers and views keep seeing the parameter: same object, same memory, same strides, still tied."""
    model, layout = odd()
    before = [(id(p), p.data_ptr(), p.stride()) for p in model.parameters()]
    load_parameters(model, layout, counted(layout))
    assert [(id(p), p.data_ptr(), p.stride()) for p in model.parameters()] == before
    assert model.decoder.weight.data_ptr() == model.encoder.weight.data_ptr()
    assert all(p.requires_grad == (name != "frozen") for name, p in model.named_parameters())


def test_a_message_is_read_without_warning_never_kept_and_never_changed() -> None:
    """Twice from the same read-only bytes, with an optimizer step between."""
    model, layout = odd()
    message = counted(layout).tobytes()
    flat = np.frombuffer(message, dtype="<f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_parameters(model, layout, flat)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        load_parameters(model, layout, flat)
    assert message == counted(layout).tobytes()
    assert flatten_parameters(model, layout).tobytes() == message


def test_a_writable_vector_is_not_kept_either() -> None:
    """Its owner may use it again."""
    model, layout = odd()
    flat = counted(layout)
    load_parameters(model, layout, flat)
    flat[:] = 0
    assert flatten_parameters(model, layout).tobytes() == counted(layout).tobytes()


def test_flattening_gives_memory_of_its_own() -> None:
    """A later step does not change what is being sent."""
    model, layout = odd()
    flat = flatten_parameters(model, layout)
    kept = flat.copy()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    assert flat.tobytes() == kept.tobytes()


def test_names_of_wrappers_are_taken_off() -> None:
    """A compiled or DDP-wrapped worker fits the run of a plain one."""
    plain = nn.Sequential(nn.Linear(2, 3))
    wrapped: nn.Module = nn.DataParallel(torch.compile(plain))  # type: ignore[type-var]
    layouts = [describe(model, optim.SGD(model.parameters(), lr=0.1), 2)[0] for model in (plain, wrapped)]
    assert layouts[0].fingerprint() == layouts[1].fingerprint()
    load_parameters(wrapped, layouts[0], counted(layouts[0]))


def test_another_model_is_refused_by_name_with_both_shapes_and_left_as_it_was() -> None:
    """One layer more, one less, and a shape turned round."""
    run = nn.ModuleDict({"a": nn.Linear(4, 8), "b": nn.Linear(2, 2)})
    layout, _ = describe(run, optim.SGD(run.parameters(), lr=0.1), 1)
    other = nn.ModuleDict({"a": nn.Linear(8, 4), "c": nn.Linear(2, 2)})
    before = [p.detach().clone() for p in other.parameters()]
    with pytest.raises(RunRefused) as refused:
        load_parameters(other, layout, counted(layout))
    for line in (
        "a.weight: shape (4, 8) here, (8, 4) in the run",
        "b.weight: in the run, not in this model",
        "c.bias: in this model, not in the run",
    ):
        assert line in str(refused.value)
    assert all(torch.equal(old, new) for old, new in zip(before, other.parameters(), strict=True))


def test_weights_that_are_no_longer_tied_are_refused() -> None:
    """Silently they would drift apart."""
    model, layout = odd()
    model.decoder.weight = nn.Parameter(torch.zeros(7, 6))
    with pytest.raises(RunRefused, match=r"decoder.weight: in this model, not in the run"):
        flatten_parameters(model, layout)


@pytest.mark.parametrize(
    "flat", [np.zeros(3, dtype=np.float32), np.zeros((1, 1), dtype=np.float32), np.zeros(2, dtype=np.float64)]
)
def test_a_vector_of_another_size_or_dtype_is_refused(flat: FlatArray) -> None:
    """Nothing is broadcast or rounded."""
    model = nn.Linear(1, 1)
    layout, _ = describe(model, optim.SGD(model.parameters(), lr=0.1), 1)
    with pytest.raises(ValueError, match=r"not float32 of shape \(2,\)"):
        load_parameters(model, layout, flat)
