"""Servers and workers of a benchmark: processes of their own as in a real run, without torch and without computing."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

import numpy as np

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.topics import run_topics
from driftline.consumers.server.serving import serve
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.running import Running
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.run.config import RunConfig

PARTITIONS = 4
WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Job:
    """A run of one flat tensor: where, its settings, and how many elements it has."""

    bootstrap_servers: str
    config: RunConfig
    elements: int

    def offer(self) -> Offer:
        """Return what its workers propose."""
        layout = Layout((Segment("weight", (), (self.elements,), "float32", "parameter", 0, 0),), PARTITIONS)
        return Offer(config=self.config, layout=layout, masters=np.zeros(self.elements, np.float32))

    def create(self) -> None:
        """Create its topics."""
        admin = KafkaBroker(KafkaSettings(self.bootstrap_servers)).admin()
        admin.create(run_topics(self.config.name, PARTITIONS))
        admin.close()


@contextmanager
def server_and_workers(job: Job) -> Iterator[BaseProcess]:
    """Run a server and the workers that the job asks for; yield the server's process, and end all of them behind."""
    with server_alone(job) as server, workers_of(job):
        yield server


@contextmanager
def server_alone(job: Job) -> Iterator[BaseProcess]:
    """Run a server, which owns nothing until workers propose a run; yield its process, and end it behind."""
    job.create()
    with _running([multiprocessing.get_context("spawn").Process(target=_serve, args=(job,), daemon=True)]) as processes:
        yield processes[0]


@contextmanager
def workers_of(job: Job) -> Iterator[None]:
    """Run the workers that the job asks for, and end them behind."""
    context = multiprocessing.get_context("spawn")
    names = [f"worker-{number}" for number in range(1, job.config.workers + 1)]
    with _running([context.Process(target=_work, args=(job, name), daemon=True) for name in names]):
        yield


@contextmanager
def _running(processes: Sequence[BaseProcess]) -> Iterator[Sequence[BaseProcess]]:
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(WAIT_S)


def _serve(job: Job) -> None:
    serve(KafkaBroker(KafkaSettings(job.bootstrap_servers)), job.config.name, "server-1", stop=threading.Event())


def _work(job: Job, name: str) -> None:
    """Contribute one and the same gradient as often as the rule allows, until the run ends."""
    offer = job.offer()
    flat = np.random.default_rng(len(name)).standard_normal(job.elements, np.float32)
    session = WorkerSession(name, os.urandom(16), offer, os.urandom(16))
    broker = KafkaBroker(KafkaSettings(job.bootstrap_servers))
    with Running(broker, job.config.name, session, name) as running:
        stop = threading.Event()
        while True:
            model = running.wait_for(session.may_start, stop=stop, timeout_s=WAIT_S, whom=session.waiting_for)
            if model is None:
                return
            gradient = Gradient(flat=flat, presence=[True], weight=1.0, loss=0.0, cursor=session.pace)
            running.perform(lambda: session.contribute(model, gradient))  # noqa: B023 - called at once
