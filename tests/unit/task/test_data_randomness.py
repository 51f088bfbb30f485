"""Random numbers depend on what they are for, and on nothing else."""

import random
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import random_split

from driftline.training.task import Dataset, Task
from driftline.training.task.parts import read_data
from driftline.training.task.randomness import seed_everything, seeded, set_torch_defaults
from driftline.training.worker.order import raw_keys, stable_seed

GOLDEN_SEED = 1908753448256733903
GOLDEN_KEYS = [5534183836306278633, 14647954877618639714]


def draw() -> tuple[float, float, float]:
    """Return one number of each generator."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: S311, NPY002


def test_seeds_are_the_same_in_every_release() -> None:
    """Golden: a run made again with a newer release draws the same numbers."""
    assert stable_seed("worker", 7, "w0", 0, 12) == GOLDEN_SEED
    assert raw_keys(2, "data order", 7, 3).tolist() == GOLDEN_KEYS


def test_parts_of_a_seed_do_not_run_into_each_other() -> None:
    """Neither by where they are cut nor by their type."""
    seeds = {
        stable_seed("a", "bc"),
        stable_seed("ab", "c"),
        stable_seed("abc"),
        stable_seed(1, 23),
        stable_seed(12, 3),
        stable_seed("1", "23"),
    }
    assert len(seeds) == 6


def test_a_name_that_is_no_valid_unicode_has_a_seed() -> None:
    """It may come from a file name."""
    assert stable_seed("w\udce9") != stable_seed("w?")


def test_a_clock_draws_the_same_whatever_was_drawn_before() -> None:
    """Dropout depends on what is computed."""
    with seeded("test"):
        seed_everything(0, "w0", 0, 5)
        first = draw()
        draw()
        seed_everything(0, "w0", 0, 5)
        assert draw() == first


def test_worker_start_and_clock_each_change_what_is_drawn() -> None:
    """And no generator repeats another."""
    draws = set()
    with seeded("test"):
        for place in ((0, "w0", 0, 0), (1, "w0", 0, 0), (0, "w1", 0, 0), (0, "w0", 1, 0), (0, "w0", 0, 1)):
            seed_everything(*place)
            draws.add(draw())
    assert len({number for numbers in draws for number in numbers}) == 15


def test_a_seeded_block_leaves_the_generators_as_they_were() -> None:
    """A script's own random numbers go on undisturbed."""
    with seeded("outer"):
        expected = draw(), draw()
    with seeded("outer"):
        first = draw()
        with seeded("inner"):
            draw()
        assert (first, draw()) == expected


def test_torch_defaults_are_one_thread_and_deterministic() -> None:
    """Without refusing operations that have no deterministic form."""
    threads = torch.get_num_threads()
    try:
        set_torch_defaults()
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode("default")


class Split(Task):
    """Splits its data by chance, without a generator of its own."""

    def data(self, split: str) -> Dataset:
        numbers: Any = list(range(100))
        train, test = random_split(numbers, [80, 20])
        return list((train if split == "train" else test).indices)

    def model(self) -> nn.Module:
        raise NotImplementedError

    loss = optimizer = metrics = model  # type: ignore[assignment]


def numbers(split: str) -> list[int]:
    """Return the samples that a process reads."""
    data = read_data(Split(), split)
    return [data[index] for index in range(len(data))]


def test_a_split_by_chance_is_the_same_in_every_process_and_for_both_splits() -> None:
    """Otherwise an evaluator would measure on what workers train on."""
    torch.manual_seed(1)
    first = numbers("train")
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    second, test = numbers("train"), numbers("test")
    assert first == second
    assert sorted([*first, *test]) == list(range(100))
    assert torch.equal(torch.random.get_rng_state(), before)
