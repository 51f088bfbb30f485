"""``python -m tests.recorded VERSION``: record the runs of a release, once, before it is out."""

import argparse

from tests.recorded import FOLDER, Expected, fold, write
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import scenario
from tests.simulation.world.simulate import play
from tests.simulation.world.world import World
from tests.support.verifiable import Log

SEEDS = (37, 207, 231, 327)
"""Buffered, async, bounded staleness and lock-step; with buffers, leases, checkpoints, joins, removals and faults."""


def main() -> None:
    """Record every seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("version", help="the release, such as 0.1.0")
    version = parser.parse_args().version
    for seed in SEEDS:
        world = World(scenario(seed), Cores())
        play(world)
        log = Log({place: [] for place in world.log.ends})
        for one in world.landed:
            log.values[one.stream, one.partition].append(one.value)
        config = world.scenario.config
        path = FOLDER / f"{version}-{config.consistency.mode}-{config.rule.name}.jsonl.gz"
        write(path, _expected(world, log), log)
        print(f"{path.name}: {len(world.landed)} records, {path.stat().st_size} bytes")  # noqa: T201 - a command line


def _expected(world: World, log: Log) -> Expected:
    report = log.verify()
    if not report.is_proven:
        raise RuntimeError(f"the run to record is not proven: {report.first_bad}")
    state = fold(log)
    faults = ", ".join(sorted(kind.name.lower().replace("_", " ") for kind in world.faults))
    return Expected(
        about=f"{len(world.promises.ledger.joined)} joins, {len(world.promises.ledger.gone)} removals; {faults}",
        version=report.version,
        head=state.chain.head.hex(),
        states={str(version): one.state.hex() for version, one in sorted(state.states.items())},
        counts=dict(sorted(report.counts.items())),
    )


if __name__ == "__main__":
    main()
