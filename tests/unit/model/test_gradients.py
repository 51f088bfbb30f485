"""Gradients reach the flat vector as torch computed them, absent ones as absent."""

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.nn import functional

from driftline.errors import RunRefused
from driftline.schemas.model.layout import Layout
from driftline.training.model.gradients import collect_gradients
from driftline.training.model.layout import describe


def layout_of(model: nn.Module) -> Layout:
    """Return the layout of a model that is trained as a whole."""
    return describe(model, optim.SGD(model.parameters(), lr=0.1), partitions=2)[0]


class Tied(nn.Module):
    """Encoder and decoder share their weight, so it is used twice; one layer is not used at all."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 3, bias=False)
        self.decoder = nn.Linear(3, 3, bias=False)
        self.decoder.weight = self.encoder.weight
        self.unused = nn.Linear(2, 2)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (n, 3) to (n, 3)."""
        hidden = self.encoder(x) * self.frozen
        return self.decoder(hidden)  # type: ignore[no-any-return]


def test_a_shared_weight_has_one_gradient_with_the_parts_of_both_uses() -> None:
    """Counted once, not once a name."""
    model = Tied()
    layout = layout_of(model)
    weight, x = model.encoder.weight, torch.arange(6.0).reshape(2, 3)
    model(x).sum().backward()
    ones = torch.ones(2, 3)
    with torch.no_grad():
        expected = ones.T @ (x @ weight.T) + (ones @ weight).T @ x
    found = collect_gradients(model, layout)
    segment = next(segment for segment in layout.segments if segment.name == "encoder.weight")
    np.testing.assert_allclose(found.flat[segment.offset : segment.stop], expected.flatten().numpy(), rtol=1e-5)


def test_unused_and_frozen_parameters_are_absent() -> None:
    """Which is not the same as a zero gradient."""
    model = Tied()
    layout = layout_of(model)
    model(torch.ones(1, 3)).sum().backward()
    model.frozen.grad = torch.ones(3)  # left over from before it was frozen
    found = collect_gradients(model, layout)
    present = {segment.name: bool(flag) for segment, flag in zip(layout.segments, found.present, strict=True)}
    assert present == {"frozen": False, "encoder.weight": True, "unused.weight": False, "unused.bias": False}
    assert found.flat[layout.segments[0].offset : layout.segments[0].stop].tolist() == [0, 0, 0]


def test_a_gradient_of_zeros_is_present() -> None:
    """It decays and counts as a step."""
    model = nn.Linear(2, 1)
    model.weight.grad = torch.zeros(1, 2)
    assert collect_gradients(model, layout_of(model)).present.tolist() == [True, False]


def test_channels_last_gradients_arrive_in_c_order() -> None:
    """Equal to those of the same net in the usual memory format."""
    plain = nn.Conv2d(3, 4, kernel_size=2)
    turned = nn.Conv2d(3, 4, kernel_size=2)
    turned.load_state_dict(plain.state_dict())
    turned = turned.to(memory_format=torch.channels_last)
    x = torch.linspace(-1, 1, 2 * 3 * 5 * 5).reshape(2, 3, 5, 5)
    plain(x).square().mean().backward()
    turned(x.to(memory_format=torch.channels_last)).square().mean().backward()
    assert turned.weight.grad is not None
    assert not turned.weight.grad.is_contiguous()
    left, right = (collect_gradients(model, layout_of(model)).flat for model in (plain, turned))
    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)


def test_scalar_and_empty_parameters_have_gradients_too() -> None:
    """Shapes () and (0, 4)."""
    model = nn.ParameterDict({"temperature": nn.Parameter(torch.tensor(2.0)), "empty": nn.Parameter(torch.empty(0, 4))})
    (model["temperature"] * 3 + model["empty"].sum()).backward()
    found = collect_gradients(model, layout_of(model))
    assert found.present.all()
    assert found.flat.tolist() == [3.0]


def test_the_vector_is_the_callers_own() -> None:
    """The next backward pass does not reach what is being sent."""
    model = nn.Linear(2, 1)
    layout = layout_of(model)
    model(torch.ones(1, 2)).sum().backward()
    found = collect_gradients(model, layout)
    kept = found.flat.copy()
    model(torch.ones(1, 2)).sum().backward()
    model.zero_grad(set_to_none=False)
    assert found.flat.tobytes() == kept.tobytes()


def test_sparse_gradients_are_refused_by_name() -> None:
    """With the same row three times in the batch; every one is named, with the way out."""
    model = nn.ModuleDict({"words": nn.Embedding(5, 2, sparse=True), "tags": nn.Embedding(5, 2, sparse=True)})
    ids = torch.tensor([1, 1, 1])
    (model["words"](ids) + model["tags"](ids)).sum().backward()
    with pytest.raises(RunRefused) as refused:
        collect_gradients(model, layout_of(model))
    assert "words.weight is sparse" in str(refused.value)
    assert "tags.weight is sparse" in str(refused.value)
    assert "sparse=False" in str(refused.value)


def test_tensors_that_are_not_finite_are_named_and_not_clipped() -> None:
    """A NaN must not spread over the whole vector by way of the norm."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model[0].bias.grad = torch.tensor([1.0, float("nan")])
    model[1].weight.grad = torch.full((2, 2), float("inf"))
    found = collect_gradients(model, layout_of(model), clip_norm=0.1)
    assert found.not_finite == ("0.bias", "1.weight")
    assert found.flat[:4].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30])
def test_clipping_bounds_the_norm_of_the_whole_gradient(size: float) -> None:
    """Also where squares leave the range of float32; direction is kept."""
    model = nn.Linear(3, 1)
    model.weight.grad = torch.tensor([[2.0, -4.0, 0.0]]) * size
    model.bias.grad = torch.tensor([4.0]) * size
    found = collect_gradients(model, layout_of(model), clip_norm=3.0 * size)
    assert found.norm == pytest.approx(6.0 * size, rel=1e-6)
    np.testing.assert_allclose(found.flat / np.float32(size), [1.0, -2.0, 0.0, 2.0], rtol=1e-5)


def test_a_gradient_within_the_bound_keeps_its_bits() -> None:
    """Clipping never makes one longer."""
    model = nn.Linear(3, 1)
    functional.mse_loss(model(torch.ones(2, 3)), torch.zeros(2, 1)).backward()  # type: ignore[no-untyped-call]
    layout = layout_of(model)
    assert (
        collect_gradients(model, layout, clip_norm=1e9).flat.tobytes()
        == collect_gradients(model, layout).flat.tobytes()
    )


def test_a_bound_that_is_no_bound_is_refused() -> None:
    """Zero would stop training in silence."""
    model = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="must be above 0"):
        collect_gradients(model, layout_of(model), clip_norm=0.0)
