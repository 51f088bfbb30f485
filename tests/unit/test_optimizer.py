"""A script with the one changed line: what `driftline.Optimizer` does for it."""

from collections.abc import Iterator

import pytest
import torch
from torch import optim

from driftline.training.model_layout import describe, flatten_parameters
from tests.unit.scripted import House, house, line, loss_of, step, together


@pytest.fixture
def home() -> Iterator[House]:
    with house() as one:
        yield one


def test_one_script_alone_makes_the_steps_of_torch(home: House) -> None:
    """The run's rule is the optimizer's; float32 rounding apart, ten steps end where torch's do."""
    ours, theirs = line(), line()
    with home.optimizer(ours, optim.SGD(ours.parameters(), lr=0.1, momentum=0.5)) as opt:
        plain = optim.SGD(theirs.parameters(), lr=0.1, momentum=0.5)
        for _ in range(10):
            assert step(ours, opt) == pytest.approx(step(theirs, plain), rel=1e-4)
        assert opt.version == 10
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_two_scripts_train_one_model(home: House) -> None:
    """They start from the same weights whatever their seeds, see the mean of their gradients, and end bit-equal."""

    def script(name: str, seed: int) -> tuple[bytes, float]:
        model = line(seed)
        with home.optimizer(model, worker=name, workers=2) as opt:
            first = loss_of(model).item()
            for _ in range(8):
                step(model, opt)
            layout, _ = describe(model, optim.SGD(model.parameters(), lr=0.1), 1)
            return flatten_parameters(model, layout).tobytes(), first

    (ada, first), (bob, second) = together(lambda: script("ada", 1), lambda: script("bob", 2))
    assert ada == bob
    assert first == second
    state = home.ledger()
    assert state.version == 8
    assert dict(state.totals.contributions) == {"ada": 8, "bob": 8}
