"""Runs blocks of seeds, on several cores: each process simulates one block after the other."""

import gc
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context

from tests.simulation.run.scenario import scenario
from tests.simulation.seeds.tally import Tally
from tests.simulation.world.simulate import SimulationFailure, simulate

AHEAD = 2
"""Blocks that wait for each process, so that none of them waits for a block."""

COLLECT_EVERY = 50_000
"""Objects between two looks for cycles: there are few, and looking as often as usual takes 7 % of the time."""


def run_block(seeds: range) -> Tally:
    """Simulate seeds; one that breaks a promise, or a state machine that raises, does not keep the others from it."""
    tally = Tally()
    with _collecting_rarely():
        for seed in seeds:
            plan = scenario(seed)
            try:
                tally.passed(plan, simulate(plan))
            except SimulationFailure as failure:
                tally.broke(plan, str(failure).splitlines()[0])
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug that this seed has found
                tally.broke(plan, f"seed {seed}: {type(error).__name__}: {error}")
    return tally


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def run_blocks(blocks: Iterable[range], jobs: int) -> Iterator[tuple[range, Tally]]:
    """Simulate blocks in ``jobs`` processes; yield them as they are done, in any order."""
    if jobs == 1:
        for block in blocks:
            yield block, run_block(block)
        return
    waiting = iter(blocks)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        _start(pool)
        try:
            yield from _through(pool, waiting, jobs)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _through(pool: ProcessPoolExecutor, waiting: Iterator[range], jobs: int) -> Iterator[tuple[range, Tally]]:
    running: dict[Future[Tally], range] = {}
    while True:
        for block in islice(waiting, AHEAD * jobs - len(running)):
            running[pool.submit(run_block, block)] = block
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


def _start(pool: ProcessPoolExecutor) -> None:
    """Start the processes, deaf to Ctrl-C from their first moment: it is for the parent, which ends them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pool.submit(int)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
