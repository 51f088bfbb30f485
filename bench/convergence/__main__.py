"""Train every way on a Kafka of its own, and add one line a run to the results; runs that are there are not made again.

``--write`` makes the tables and the drawing of docs/convergence.md of the results, and trains nothing.
"""

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.conditions import conditions
from bench.convergence.chart import DRAWING, drawn
from bench.convergence.measuring import Measuring, chosen, read_ledger, read_published
from bench.convergence.members import Job, Members
from bench.convergence.page import PAGE, written
from bench.convergence.results import Row, append, append_conditions, load
from bench.convergence.trials import MOST_GRADIENT_S, SECONDS, SLOW_WORKER, TRIES, WORKERS, Trial, trials
from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Broker, Record, Start
from driftline.broker.reading import reading
from driftline.broker.topics import Stream, topic_name
from driftline.runs.commands import delete_run
from driftline.schemas.codec import decode
from driftline.schemas.records import Membership

RESULTS = Path(__file__).parent / "results.jsonl"
START_S = 300.0
"""How long a run may take until its workers have joined."""

LOOK_S = 0.2


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench.convergence", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the results file (default: the committed one)")
    parser.add_argument("--only", help="runs whose name holds this text, for example 'digits sync'")
    parser.add_argument("--write", action="store_true", help="write the page and the drawing, train nothing")
    arguments = parser.parse_args()
    if arguments.write:
        results = load(arguments.results)
        PAGE.write_text(written(PAGE.read_text(), results))
        DRAWING.write_text(drawn(results))
        return
    done = {row.key for row in load(arguments.results).rows}
    left = [one for one in trials() if one.key not in done and (arguments.only or "") in name_of(one)]
    print(f"{len(done)} runs are there, {len(left)} are to be made", flush=True)
    if left:
        _train(left, arguments.results)


def name_of(trial: Trial) -> str:
    """Return what a person calls a run."""
    task, way, slowness, seed = trial.key
    return f"{task} {way}, {slowness}x, seed {seed}"


def _train(left: list[Trial], results: Path) -> None:
    machine = conditions({})
    tasks: dict[str, Measuring] = {}
    with (
        tempfile.TemporaryDirectory(prefix="driftline-convergence-") as home,
        EmbeddedBroker(Path(home), prepare=False) as kafka,
        Members() as members,
    ):
        broker = KafkaBroker(KafkaSettings(kafka.bootstrap_servers))
        for number, trial in enumerate(left, start=1):
            name = trial.study.name
            measuring = tasks[name] if name in tasks else tasks.setdefault(name, Measuring(trial))
            row = _made(broker, members, Job(trial, f"convergence-{number}", kafka.bootstrap_servers), measuring)
            if number == 1:
                append_conditions(results, machine)
            append(results, row)
            print(f"{number}/{len(left)}  {_line(trial, row)}", flush=True)


def _made(broker: Broker, members: Members, job: Job, measuring: Measuring) -> Row:
    """Make a run, again if the machine was too busy for its times to mean anything."""
    for number in range(1, TRIES + 1):
        row = _one(broker, members, replace(job, run=f"{job.run}-{number}"), measuring)
        if row.gradient_s <= MOST_GRADIENT_S:
            break
        print(f"  try {number} of {TRIES} met a busy machine: {_line(job.trial, row)}", flush=True)
    return row


def _line(trial: Trial, row: Row) -> str:
    last = row.curve[-1]
    return (
        f"{name_of(trial)}: version {row.versions}, {row.samples:,} samples, loss {last.loss:.3f}, accuracy "
        f"{row.accuracy:.3f}, {1000 * row.gradient_s:.0f} ms a gradient, load {row.load}"
    )


def _one(broker: Broker, members: Members, job: Job, measuring: Measuring) -> Row:
    """Train one run, measure it, and delete it."""
    load_before = os.getloadavg()[0]
    members.begin(job)
    _wait_until_joined(broker, members, job.run)
    time.sleep(SECONDS)
    reports = members.end()
    ledger = read_ledger(broker, job.run)
    layout, ended = ledger.state.layout, ledger.state.ended
    curve, accuracy = measuring.measure(chosen(read_published(broker, job.run, ledger)), layout)
    delete_run(broker, job.run)
    head = max(ledger.samples)
    fast = [name for name in WORKERS if name != SLOW_WORKER]
    return Row(
        task=job.trial.study.name,
        way=job.trial.way.name,
        slowness=job.trial.slowness,
        seed=job.trial.seed,
        curve=curve,
        accuracy=accuracy,
        versions=head,
        samples=ledger.samples[head],
        staleness=dict(sorted(ledger.staleness.items())),
        rejected=ledger.rejected,
        clocks=(sum(ledger.clocks[name] for name in fast), ledger.clocks[SLOW_WORKER]),
        waiting=(
            round(sum(reports[name].waiting_share for name in fast) / len(fast), 3),
            round(reports[SLOW_WORKER].waiting_share, 3),
        ),
        gradient_s=round(max(reports[name].gradient_s for name in fast), 4),
        failure="" if ended is None else ended.failure,
        load=round(load_before, 1),
    )


def _wait_until_joined(broker: Broker, members: Members, run: str) -> None:
    """Return when the ledger has its first members."""
    deadline_s = time.monotonic() + START_S
    admin = broker.admin()
    try:
        while topic_name(run, Stream.LEDGER) not in admin.topics():
            members.check()
            _check_patience(deadline_s, run)
            time.sleep(LOOK_S)
    finally:
        admin.close()
    with reading(broker) as reader:
        reader.read(topic_name(run, Stream.LEDGER), 0, Start.BEGINNING)
        while True:
            found = reader.poll(LOOK_S)
            if isinstance(found, Record) and isinstance(decode(found.value), Membership):
                return
            members.check()
            _check_patience(deadline_s, run)


def _check_patience(deadline_s: float, run: str) -> None:
    if time.monotonic() > deadline_s:
        raise RuntimeError(f"the workers of run {run!r} did not join within {START_S:.0f} s")


if __name__ == "__main__":
    main()
