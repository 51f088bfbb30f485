"""The modules that one gradient passes, in order, and those that run in the same update for another reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Stop:
    """A module on the way.

    Attributes:
        module: its path from the root of the repository.
        function: qualified name of the function that the gradient passes first.
        does: what happens there, as the rest of a sentence.
    """

    module: str
    function: str
    does: str


WAY: Final = {
    "The worker computes": (
        Stop("training/optimizer/optimizer.py", "ScriptOptimizer.step", "is what the script calls"),
        Stop("training/optimizer/gradient.py", "gradient_of", "gives the gradient its weight and its loss"),
        Stop("training/model/gradients.py", "collect_gradients", "puts every `parameter.grad` into one flat vector"),
        Stop("training/model/layout.py", "segment_tensor", "says where a tensor lies in the vector"),
        Stop("training/optimizer/steps.py", "Steps.send_gradients", "spends a clock on it, and loads what comes back"),
        Stop("training/worker/participation.py", "Participation.spend_clock", "is a worker, of a script or of a task"),
    ),
    "It becomes records": (
        Stop("src/driftline/runtime/running.py", "Running.perform", "hands it to the thread that talks to Kafka"),
        Stop("producers/session.py", "WorkerSession.contribute", "is the worker's half of the protocol"),
        Stop("producers/clocks.py", "SpentClocks.spend", "keeps it until the ledger decides"),
        Stop("producers/deltas.py", "DeltaEncoder.sends", "makes one delta a shard, and a contribution"),
        Stop("schemas/model/layout.py", "Layout.shard_range", "cuts the vector into shards"),
        Stop("schemas/model/tensors.py", "encode_fp32", "makes numbers bytes, and bytes numbers"),
        Stop("schemas/digests.py", "seal", "puts the digest into the record"),
        Stop("schemas/codec/__init__.py", "encode", "finds the writer of the record's class, or the reader"),
        Stop("schemas/codec/writing.py", "payload_view", "writes the fields"),
        Stop("schemas/codec/primitives.py", "write_long", "writes and reads Avro's primitive types"),
    ),
    "It goes through Kafka": (
        Stop("src/driftline/runtime/shell.py", "Shell._send", "sends, and feeds what is read to a state machine"),
        Stop("src/driftline/runtime/pump.py", "GroupPump._poll", "reads on a thread of its own"),
        Stop("src/driftline/runtime/inflow.py", "Inflow.put", "is the bounded queue in between"),
        Stop("schemas/codec/reading.py", "_block", "reads the fields, and trusts none of them"),
    ),
    "The owner of the shard takes it": (
        Stop("consumers/server/server.py", "Server.on", "decodes, and calls the role that the record is for"),
        Stop("consumers/server/shard_server.py", "ShardServer.on_delta", "holds the delta, and sends a receipt"),
        Stop("consumers/server/partition.py", "check_delta", "checks digest, place and size"),
    ),
    "The coordinator decides": (
        Stop("consumers/coordinator/coordinator.py", "Coordinator.on_event", "reads contribution and receipts"),
        Stop("consumers/coordinator/evidence.py", "Evidence.add", "keeps what the ledger does not hold yet"),
        Stop("src/driftline/ledger/event_check.py", "event_problem", "refuses an event that cannot be"),
        Stop("consumers/coordinator/pending_clocks.py", "PendingClocks.is_whole", "says when every delta is there"),
        Stop("consumers/coordinator/decisions.py", "decide", "makes the next record of the ledger"),
        Stop("src/driftline/ledger/policy.py", "clock_closes", "closes a version, and damps what is late"),
    ),
    "Every process folds the decision": (
        Stop("src/driftline/ledger/run_state.py", "RunState.read", "is the fold of the ledger"),
        Stop("src/driftline/ledger/chain.py", "Chain.accept", "says whether a record counts"),
        Stop("src/driftline/ledger/contradictions.py", "in_version", "ends a ledger that contradicts itself"),
    ),
    "The server applies it": (
        Stop("consumers/server/shard.py", "Shard.apply", "sums the deltas of the version, block by block"),
        Stop("src/driftline/rules/sgd.py", "Sgd.step", "changes the weights; other rules are in the same folder"),
    ),
    "The worker loads the version": (
        Stop("src/driftline/ledger/follower.py", "ModelReader.on_parameters", "assembles one whole version"),
    ),
}
"""By part of the way."""

BESIDE: Final = {
    "members, heartbeats and samples": (
        "consumers/coordinator/pending_members.py",
        "producers/member.py",
        "schemas/records/identity.py",
        "schemas/records/sample_range.py",
        "schemas/run/data.py",
        "src/driftline/ledger/leases.py",
        "training/optimizer/drawing.py",
        "training/optimizer/rates.py",
    ),
    "snapshots, digests of states, and the end of the run": (
        "consumers/coordinator/pending_snapshots.py",
        "consumers/coordinator/pending_start.py",
        "consumers/coordinator/pending_versions.py",
        "consumers/coordinator/run_decisions.py",
        "consumers/server/snapshotting.py",
        "consumers/server/state_digests.py",
    ),
    "whether the log is whole, and still this run's": (
        "consumers/server/shard_owner.py",
        "src/driftline/ledger/entering/same_run.py",
        "src/driftline/ledger/known_ends.py",
    ),
    "whether the script has changed weights itself": ("training/optimizer/loaded.py",),
    "settings, names and counters that those above look up": (
        "schemas/effects.py",
        "schemas/run/config.py",
        "schemas/run/consistency.py",
        "schemas/run/schedule.py",
        "src/driftline/broker/clients.py",
        "src/driftline/broker/topics.py",
        "src/driftline/rules/__init__.py",
        "src/driftline/rules/base.py",
        "src/driftline/rules/engines.py",
        "src/driftline/runtime/traffic.py",
        "training/model/tensors.py",
        "training/model/wrappers.py",
    ),
}
"""Modules that run in an update and that no gradient passes, by what they are there for."""


def stops() -> list[Stop]:
    """Return the modules on the way, in order."""
    return [stop for part in WAY.values() for stop in part]


def lines() -> Iterator[str]:
    """Yield the text of the page about it."""
    yield "| | module | function | what it does |"
    yield "|---|---|---|---|"
    number = 0
    for part, along in WAY.items():
        yield f"| | **{part}** | | |"
        for stop in along:
            number += 1
            yield f"| {number} | {_link(stop.module)} | `{stop.function}` | {stop.does} |"
    yield ""
    yield "These run in the same update, and the gradient does not pass them:"
    yield ""
    for reason, modules in BESIDE.items():
        yield f"- {reason}: {', '.join(map(_link, modules))}"


def _link(module: str) -> str:
    return f"[`{module.removeprefix('src/driftline/')}`](../{module})"
