"""`driftline.Sampler` with torch's own DataLoader: what the ledger says was used is what was trained on."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

import driftline
from driftline.broker.topics import Stream, topic_name
from driftline.errors import ConfigError, RunEnded, RunRefused, UsageError
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import encode
from driftline.schemas.records import Leave
from driftline.training.worker.order import epoch_order
from tests.support.scripts import RUN, House, house, line, loss_of, together

pytestmark = pytest.mark.slow

SAMPLES, BATCH = 50, 4


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def numbers() -> TensorDataset:
    """Return samples that know their own index."""
    inputs = torch.arange(SAMPLES * 3, dtype=torch.float32).reshape(SAMPLES, 3) / 150
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True), torch.arange(SAMPLES))


@dataclass
class Script:
    """A worker with a loop of its own; it notes what each of its steps was made on."""

    home: House
    name: str = "ada"
    settings: dict[str, Any] = field(default_factory=dict)
    loader: dict[str, Any] = field(default_factory=dict)
    accumulate: int = 1
    steps: list[list[int]] = field(default_factory=list)
    passes: int = 0

    def open(self, model: nn.Module) -> "driftline.Optimizer":
        """Join the run."""
        settings = {"samples": SAMPLES, "batch_size": BATCH, **self.settings}
        return self.home.optimizer(model, worker=self.name, **settings)

    def load(self, opt: "driftline.Optimizer") -> "DataLoader[tuple[Tensor, ...]]":
        """Make a loader of the leased samples."""
        sampler = driftline.Sampler(opt, numbers(), batch_size=BATCH * self.accumulate)
        return DataLoader(numbers(), **{"batch_size": BATCH, "sampler": sampler, **self.loader})

    def run(self) -> None:
        """Train until the run ends."""
        model = line()
        with self.open(model) as opt:
            loader = self.load(opt)
            while not opt.done:
                self.passes += 1
                for _ in self.once(model, opt, loader):
                    pass

    def once(self, model: nn.Module, opt: "driftline.Optimizer", loader: Any) -> Iterator[int]:
        """Go through the loader once, and yield behind each step how many there were."""
        held: list[int] = []
        for inputs, heights, indices in loader:
            nn.functional.mse_loss(model(inputs), heights).backward()  # type: ignore[no-untyped-call]
            held += indices.tolist()
            if len(held) < BATCH * self.accumulate and len(indices) == BATCH and self.accumulate > 1:
                continue
            opt.step(weight=len(held))
            opt.zero_grad()
            self.steps.append(held)
            held = []
            yield len(self.steps)


def used(state: RunState) -> dict[str, list[list[int]]]:
    """Return which samples each worker's steps used up, as the ledger says."""
    names = {group: worker for (worker, _), group in state.joined.items()}
    found: dict[str, list[list[int]]] = {}
    for version in state.versions.values():
        for use in version.uses:
            if use.kind == "delta":
                orders = [epoch_order(SAMPLES, 0, one.epoch)[one.start : one.stop] for one in use.samples]
                found.setdefault(names[use.group], []).append([int(index) for order in orders for index in order])
    return found


def times_used(state: RunState) -> Counter[int]:
    """Return how often each sample was used."""
    return Counter(index for steps in used(state).values() for step in steps for index in step)


@pytest.mark.parametrize("loaders", [0, 2])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_sampler(home: House, mode: str, loaders: int) -> None:
    """Each sample is used once an epoch, and each step by the very samples that its batch held."""
    scripts = [
        Script(home, name, {"workers": 2, "epochs": 2, "mode": mode}, {"num_workers": loaders})
        for name in ("ada", "bob")
    ]
    together(*(one.run for one in scripts))
    state = home.ledger()
    assert used(state) == {one.name: one.steps for one in scripts}
    assert times_used(state) == dict.fromkeys(range(SAMPLES), 2)
    assert (state.leases.epoch, state.leases.consumed, state.leases.discarded) == (2, 2 * SAMPLES, 0)
    assert state.ended is not None
    assert not state.ended.failure


@pytest.mark.parametrize("loaders", [0, 2])
def test_sampler_drop_last(home: House, loaders: int) -> None:
    """What the loader drops is not used; it is discarded when nothing else is left of its epoch."""
    script = Script(home, settings={"epochs": 2}, loader={"num_workers": loaders, "drop_last": True})
    script.run()
    state = home.ledger()
    assert used(state) == {"ada": script.steps}
    assert {len(step) for step in script.steps} == {BATCH}
    assert (state.leases.consumed, state.leases.discarded) == (2 * (SAMPLES - SAMPLES % BATCH), 2 * (SAMPLES % BATCH))


def test_sampler_in_batches(home: House) -> None:
    """A batch sampler of the script's own draws from it."""
    script = Script(home, settings={"epochs": 1})
    model = line()
    with script.open(model) as opt:
        batches = BatchSampler(driftline.Sampler(opt, numbers()), BATCH, drop_last=False)
        loader: Any = DataLoader(numbers(), batch_sampler=batches)
        assert list(script.once(model, opt, loader))[-1] == -(-SAMPLES // BATCH)
    assert used(home.ledger()) == {"ada": script.steps}


def test_sampler_with_accumulation(home: House) -> None:
    """A step of two batches uses up both."""
    script = Script(home, settings={"epochs": 1}, accumulate=2)
    script.run()
    assert [len(step) for step in script.steps] == [8, 8, 8, 8, 8, 8, 2]
    assert used(home.ledger()) == {"ada": script.steps}


@pytest.mark.parametrize("way_out", ["", "optimizer", "model"])
def test_gradients_of_an_earlier_iteration_are_noticed(
    home: House, way_out: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A step of several batches that was left without its last ones: their samples come again, so would gradients."""
    model = line()
    with Script(home).open(model) as opt:
        loader = Script(home, accumulate=2).load(opt)
        for _ in range(2):
            for inputs, heights, _ in itertools.islice(loader, 3):
                nn.functional.mse_loss(model(inputs), heights).backward()  # type: ignore[no-untyped-call]
            if way_out == "optimizer":
                opt.zero_grad()
            elif way_out == "model":
                model.zero_grad()
        for inputs, heights, _ in itertools.islice(loader, 2):
            nn.functional.mse_loss(model(inputs), heights).backward()  # type: ignore[no-untyped-call]
        opt.step()
    assert caplog.text.count("gradients of an earlier iteration over the Sampler went into this step") == (not way_out)


@pytest.mark.parametrize("loaders", [0, 2])
def test_samples_that_were_drawn_and_not_used_are_drawn_again(home: House, loaders: int) -> None:
    """A loader reads ahead; a loop that is left early uses up what its steps were made on, and no more."""
    script = Script(home, settings={"epochs": 1}, loader={"num_workers": loaders})
    model = line()
    with script.open(model) as opt:
        loader = script.load(opt)
        steps = script.once(model, opt, loader)
        assert [next(steps) for _ in range(3)] == [1, 2, 3]
        assert home.ledger().leases.consumed == 3 * BATCH
        del steps
        list(script.once(model, opt, loader))
    state = home.ledger()
    assert used(state) == {"ada": script.steps}
    assert times_used(state) == dict.fromkeys(range(SAMPLES), 1)


def test_an_iteration_is_an_epoch(home: House) -> None:
    """Each in an order of its own."""
    script = Script(home)
    model = line()
    with script.open(model) as opt:
        loader = script.load(opt)
        an_epoch = -(-SAMPLES // BATCH)
        for number in (1, 2):
            assert list(script.once(model, opt, loader))[-1] == number * an_epoch
    first, second = (
        [index for step in script.steps[part] for index in step] for part in (slice(an_epoch), slice(an_epoch, None))
    )
    assert sorted(first) == sorted(second) == list(range(SAMPLES))
    assert first == epoch_order(SAMPLES, 0, 0).tolist() != second


def test_a_worker_that_leaves_leaves_its_samples_to_the_others(home: House) -> None:
    """It stops in the middle of the epoch; the other one reads the rest of it."""
    settings = {"workers": 2, "epochs": 1, "mode": "async"}
    ada, bob = Script(home, "ada", settings), Script(home, "bob", settings)

    def leave_early() -> None:
        model = line()
        with bob.open(model) as opt:
            steps = bob.once(model, opt, bob.load(opt))
            next(steps)
            next(steps)

    together(ada.run, leave_early)
    state = home.ledger()
    assert len(bob.steps) == 2
    assert used(state) == {"ada": ada.steps, "bob": bob.steps}
    assert times_used(state) == dict.fromkeys(range(SAMPLES), 1)


def dismiss(home: House, worker: str) -> None:
    """Let the coordinator believe that a worker has left."""
    state = home.ledger()
    group = state.worker_group(worker)
    assert group is not None
    gone = Leave(run=state.start.run, worker=worker, incarnation=group.incarnation, reason="dismissed")
    producer = home.broker.producer()
    producer.send(topic_name(RUN, Stream.EVENTS), 0, encode(gone))
    producer.close()


@pytest.mark.parametrize("loaders", [0, 2])
def test_a_worker_that_was_removed_meanwhile_uses_nothing_up_that_it_has_lost(home: House, loaders: int) -> None:
    """Its loader has read ahead what is leased to another worker by now; the script goes on as a new member."""
    settings = {"workers": 2, "epochs": 2, "mode": "async"}
    ada, bob = (Script(home, name, settings, {"num_workers": loaders}) for name in ("ada", "bob"))

    def removed_in_between() -> None:
        model = line()
        with ada.open(model) as opt:
            loader = ada.load(opt)
            for made in ada.once(model, opt, loader):
                if made == 2:
                    dismiss(home, "ada")
            while not opt.done:
                list(ada.once(model, opt, loader))

    together(removed_in_between, bob.run)
    state = home.ledger()
    assert "left" in state.removed.values()
    assert times_used(state) == dict.fromkeys(range(SAMPLES), 2)
    assert (state.leases.consumed, state.leases.discarded) == (2 * SAMPLES, 0)


@pytest.mark.parametrize("loaders", [0, 2])
def test_a_run_that_ends_in_the_middle_of_a_pass_ends_the_pass(home: House, loaders: int) -> None:
    """What the loader has read ahead by then is dropped without an error; a step on anything else is one."""
    script = Script(home, settings={"steps": 3}, loader={"num_workers": loaders})
    model = line()
    with script.open(model) as opt:
        list(script.once(model, opt, script.load(opt)))
        assert opt.done
        assert (len(script.steps) > 3) == bool(loaders)
        assert not list(script.once(model, opt, script.load(opt)))
        with pytest.raises(RunEnded, match="reached version 3"):
            opt.step()
    assert used(home.ledger()) == {"ada": script.steps[:3]}


def test_a_loop_that_does_not_ask_whether_the_run_has_ended(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """Over numbered epochs it comes to its end, with one warning; an endless one gets an error, and does not spin."""
    script = Script(home, settings={"epochs": 1})
    model = line()
    with script.open(model) as opt:
        loader = script.load(opt)
        for _ in range(100):
            list(script.once(model, opt, loader))
        assert caplog.text.count("there is nothing more to read: the run has ended") == 1
        endless = (list(script.once(model, opt, loader)) for _ in itertools.count())
        with pytest.raises(RunEnded, match=r"found nothing: the run has ended .* when opt\.done is true"):
            list(endless)
    assert used(home.ledger()) == {"ada": script.steps}


def test_a_step_whose_gradients_are_not_finite_discards_its_samples(home: House) -> None:
    script = Script(home, settings={"epochs": 1})
    model = line()
    with script.open(model) as opt:
        for number, (inputs, heights, _) in enumerate(script.load(opt)):
            factor = float("inf") if number == 1 else 1.0
            (factor * nn.functional.mse_loss(model(inputs), heights)).backward()  # type: ignore[no-untyped-call]
            opt.step()
            opt.zero_grad()
    state = home.ledger()
    assert (state.leases.consumed, state.leases.discarded) == (SAMPLES - BATCH, BATCH)


def test_a_loader_that_draws_too_far_ahead_is_refused(home: House) -> None:
    """It would wait for samples that are leased once it has made the steps that it does not come to."""
    script = Script(home, settings={"block": BATCH}, loader={"num_workers": 2, "prefetch_factor": 6})
    model = line()
    with script.open(model) as opt, pytest.raises(UsageError, match=r"smaller prefetch_factor .* larger block"):
        list(script.once(model, opt, script.load(opt)))


def test_a_loader_whose_steps_use_up_too_little_is_refused(home: House) -> None:
    """A script that accumulates gradients and does not say so draws too far ahead, however little it prefetches."""
    model = line()
    words = r"each of which uses up 4,.* accumulated, use Sampler\(opt, data, batch_size=…\)"
    script = Script(home, settings={"block": 2 * BATCH})
    with script.open(model) as opt, pytest.raises(UsageError, match=words):  # noqa: PT012 - as scripts do
        for number, (inputs, heights, _) in enumerate(script.load(opt)):
            nn.functional.mse_loss(model(inputs), heights).backward()  # type: ignore[no-untyped-call]
            if number % 3 == 2:
                opt.step()
                opt.zero_grad()


def test_a_run_that_leases_samples_wants_a_sampler(home: House) -> None:
    """Otherwise what is leased to this script would be used by no worker."""
    model = line()
    with home.optimizer(model, samples=SAMPLES, batch_size=BATCH) as opt:
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        with pytest.raises(UsageError, match=r"leases its samples, .*sampler=driftline\.Sampler\(opt, data\)"):
            opt.step()


def test_a_sampler_wants_a_run_that_leases_these_samples(home: House) -> None:
    """And says how to make one."""
    with home.optimizer(line(), samples=SAMPLES) as opt:
        with pytest.raises(UsageError, match="the data has 7 samples, and the run was made for 50"):
            driftline.Sampler(opt, range(7))
        with pytest.raises(UsageError, match="batch_size is 0"):
            driftline.Sampler(opt, numbers())
        with pytest.raises(RunRefused, match=r"data\.samples: 51 here, 50 in the run"):
            home.optimizer(line(), worker="bob", samples=51)


def test_a_run_without_samples_has_none_for_a_sampler(home: House) -> None:
    with home.optimizer(line()) as opt, pytest.raises(UsageError, match=r"Optimizer\(…, samples=50, batch_size=…\)"):
        driftline.Sampler(opt, numbers())


def test_numbers_of_samples_that_cannot_be_are_refused_together(home: House) -> None:
    with pytest.raises(ConfigError) as refused:
        home.optimizer(line(), samples=-1, batch_size="many")
    assert [one.partition(":")[0] for one in refused.value.problems] == ["samples", "batch_size"]
