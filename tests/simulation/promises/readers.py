"""What must hold of a process after every input: it knows what the reference knows, no more and no less."""

from driftline.consumers.server.server import Server
from driftline.producers.session import WorkerSession
from driftline.training.task.evaluator import EvaluatorSession
from tests.simulation.promises.records import Promises
from tests.simulation.promises.reference_ledger import Violation, require
from tests.simulation.run.actors import Actor, Operator


def check_actor(actor: Actor, promises: Promises) -> None:
    """Compare a process with the references.

    Raises:
        Violation: says what differs.
    """
    state = actor.core.state
    known = promises.ledger.moments[state.next_offset]
    # Messages are built only when they are needed: this runs after every event.
    if (state.chain.head, state.chain.term) != (known.head, known.term):
        raise Violation(f"{actor} reads another ledger than the reference up to offset {state.next_offset}")
    if state.version != known.version:
        raise Violation(f"{actor} is at version {state.version}, the ledger at {known.version}")
    if isinstance(actor.core, Server):
        _check_shards(actor, actor.core, known.version, promises)
    elif not isinstance(actor.core, Operator):
        _check_model(actor, actor.core, known.version, promises)


def _check_shards(actor: Actor, server: Server, known: int, promises: Promises) -> None:
    layout = promises.problem.layout
    for partition, owned in server.shards.owned.items():
        seen = (id(owned), owned.version, len(owned.shards))
        if actor.checked.get(partition) == seen:
            continue
        actor.checked[partition] = seen
        require(owned.version <= known, f"{actor} applies version {owned.version}, has read {known}")
        for shard, one in owned.shards.items():
            right = promises.model.states[owned.version].masters[slice(*layout.shard_range(shard))]
            same = one.version == owned.version and one.masters.tobytes() == right.tobytes()
            require(same, f"{actor} holds another shard {shard} of version {owned.version} than the log gives")


def _check_model(actor: Actor, core: WorkerSession | EvaluatorSession, known: int, promises: Promises) -> None:
    newest = core.reader.follower.newest
    if newest is None or actor.checked.get(-1) is newest:
        return
    before = actor.checked.get(-2, -1)
    actor.checked[-1], actor.checked[-2] = newest, newest.version
    require(isinstance(before, int) and newest.version > before, f"{actor} falls from {before} to {newest.version}")
    require(newest.version <= known, f"{actor} holds version {newest.version}, has read {known}")
    right = promises.model.states[newest.version].masters
    require(newest.flat.tobytes() == right.tobytes(), f"{actor} holds another version {newest.version}")
