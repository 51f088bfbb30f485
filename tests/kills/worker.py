"""``python -m tests.kills.worker JOB NAME BOOTSTRAP FOLDER MARK``: a worker process without torch.

It ends when its standard input does.
"""

import os
import sys
import threading
import time
from pathlib import Path

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.producers.member import new_incarnation, read_mark
from driftline.producers.session import WorkerSession
from driftline.runtime.running import Running
from driftline.schemas.effects import Finish
from tests.kills.acknowledged import Acknowledged
from tests.kills.job import Job
from tests.simulation.run.quadratic import Problem, take_clock

PATIENCE_S = 600.0


def notes_of(folder: Path, name: str) -> Path:
    """Return the file in which the worker ``name`` notes what was acknowledged."""
    return folder / f"{name}.acknowledged"


def main(arguments: list[str]) -> int:
    """Work until the run ends; return the exit code."""
    text, name, bootstrap_servers, folder, mark = arguments
    job = Job.from_json(text)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    broker = Acknowledged(KafkaBroker(KafkaSettings(bootstrap_servers)), notes_of(Path(folder), name))
    problem = job.problem()
    while True:
        incarnation, state = new_incarnation(read_mark(mark)), enter_ledger(broker, job.run).state()
        session = WorkerSession(name, incarnation, problem.offer, os.urandom(16), state=state)
        with Running(broker, job.run, session, name) as running:
            finish = _work(running, session, problem, job.pause_s)
        if not session.may_return:
            sys.stdout.write(f"{finish}\n")
            return 1 if finish is None or finish.failure else 0


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def _work(running: Running, session: WorkerSession, problem: Problem, pause_s: float) -> Finish | None:
    stop = threading.Event()
    while True:
        model = running.wait_for(session.may_start, stop=stop, timeout_s=PATIENCE_S, whom=session.waiting_for)
        if model is None:
            return running.finished
        pace, leased = running.query(lambda: (session.pace, session.samples))
        samples = take_clock(problem.config, leased)
        gradient = problem.gradient(session.name, pace, samples, model.flat)
        time.sleep(pause_s)
        if running.query(lambda: session.group) is None:
            continue  # removed while it computed
        if samples:
            running.perform(lambda: session.contribute(model, gradient))  # noqa: B023 - called at once
        else:
            running.perform(lambda: session.skip(model, pace, "no samples are left for it", ()))  # noqa: B023 - ditto


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
