"""Hypothesis strategies and fixed samples of every record, for all tests that need records.

They follow the ``.avsc`` files, not the codec, so that they can prove it.
"""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeAlias, get_args

import numpy as np
from hypothesis import strategies as st

from driftline.schemas import records
from driftline.schemas.model.dtypes import BUFFER, BUFFER_BYTES, FROZEN, KINDS, PARAMETER, PARAMETER_DTYPES
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records import AnyRecord, GroupId

Named: TypeAlias = dict[str, Mapping[str, Any]]

RECORD_TYPES: tuple[type[AnyRecord], ...] = get_args(AnyRecord)
PAYLOAD_TYPES: tuple[type[records.PayloadRecord], ...] = get_args(records.PayloadRecord)

_PRIMITIVES: Mapping[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "bytes": st.binary(max_size=40),
}


def snake_case(name: str) -> str:
    """``UndecodableReport`` to ``undecodable_report``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


def avsc(record_type: type[AnyRecord]) -> dict[str, Any]:
    """Return the schema file of a record type as it is packaged."""
    file = resources.files("driftline.schemas").joinpath("avsc", f"{snake_case(record_type.__name__)}.avsc")
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def records_of(record_type: type[AnyRecord], schema: Mapping[str, Any] | None = None) -> st.SearchStrategy[AnyRecord]:
    """Any record of one type: every value that its schema takes, of exactly the declared Python types.

    Args:
        record_type: the type.
        schema: an earlier one of it; what it lacks has its default.
    """
    strategy: st.SearchStrategy[AnyRecord] = _of(schema or avsc(record_type), {})
    return strategy


def any_record() -> st.SearchStrategy[AnyRecord]:
    """Any record of any type."""
    return st.sampled_from(RECORD_TYPES).flatmap(records_of)


def shapes() -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of parameters: scalars, empty ones, matrices."""
    return st.lists(st.integers(0, 40), max_size=3).map(tuple)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any valid layout of a small model: parameters, frozen ones and buffers, of any dtype."""
    drawn = draw(st.lists(shapes(), max_size=8))
    drawn.insert(draw(st.integers(0, len(drawn))), draw(st.sampled_from([(), (1,), (3, 5), (500,)])))
    segments: list[Segment] = []
    for index, shape in enumerate(drawn):
        kind = draw(st.sampled_from(KINDS))
        groups = {PARAMETER: st.integers(0, 2), FROZEN: st.integers(-1, 2), BUFFER: st.just(-1)}
        segments.append(
            Segment(
                name=f"block{index}.weight",
                aliases=(f"tied{index}.weight",) if draw(st.booleans()) else (),
                shape=shape,
                dtype=draw(st.sampled_from(tuple(BUFFER_BYTES) if kind == BUFFER else PARAMETER_DTYPES)),
                kind=kind,
                group=draw(groups[kind]),
                offset=segments[-1].stop if segments else 0,
            )
        )
    return Layout(tuple(segments), draw(st.integers(1, 9)))


def _of(schema: Any, named: Named) -> st.SearchStrategy[Any]:
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else _of(named[schema], named)
    if "name" in schema:
        named[schema["name"]] = schema
    match schema["type"]:
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "array":
            return st.lists(_of(schema["items"], named), max_size=4).map(tuple)
        case "map":
            return st.dictionaries(_PRIMITIVES["string"], _of(schema["values"], named), max_size=4)
        case _:
            fields = {field["name"]: _of(field["type"], named) for field in schema["fields"]}
            return st.builds(getattr(records, schema["name"]), **fields)


# -- one fixed record of each type -----------------------------------------------------------------------------------

UUID_A, UUID_B = bytes(range(16)), bytes(range(16, 32))
HASH_A, HASH_B = bytes(range(32)), bytes(range(255, 223, -1))
GROUP = GroupId(1_234_567, 1)
PAYLOAD = np.array([0.0, -0.0, 1.5, -3.25e-5, np.inf, 1e-45], "<f4").tobytes()
_PLACES = (
    records.SnapshotPlace(shard=1, tensor="master", offset=12, digest=HASH_A),
    records.SnapshotPlace(shard=1, tensor="steps", offset=13, digest=HASH_B),
)
_STATES = (records.StateDigest(version=698, state=HASH_A, parameters=HASH_B),)
_STATE = records.FrozenState(
    next_offset=1_400,
    start_offset=1,
    start_head=HASH_B,
    term=2,
    head=HASH_A,
    heads=(HASH_B, HASH_A),
    groups=(
        records.FrozenGroup(group=GROUP, worker="worker-1", incarnation=UUID_A, settled_pace=700, settled_clock=698),
    ),
    former=(records.FormerGroup(group=GroupId(12, 0), worker="worker-0", incarnation=UUID_B),),
    first_names=("worker-0", "worker-1"),
    leases=(
        records.LeaseRow(kind=0, first=3, second=128, third=256, fourth=0, fifth=0),
        records.LeaseRow(kind=4, first=4, second=9_000, third=8, fourth=0, fifth=0),
    ),
    deltas_end=(1_399, 0),
    last_publish=699,
    digests=_STATES,
    evaluations=(records.FrozenEvaluation(version=690, evaluator="eval-0", metrics={"accuracy": 0.96875}),),
    totals=records.FrozenTotals(
        contributions={"worker-0": 2, "worker-1": 697},
        skips={"worker-1": 1},
        rejections={},
        rejection_reasons={},
        staleness=(records.Lateness(versions=0, count=699),),
        samples=44_736.0,
        losses=(0.25,),
        published=700,
        valid=1_390,
    ),
)


def _range(epoch: int, start: int, count: int) -> records.SampleRange:
    return records.SampleRange(epoch=epoch, start=start, count=count)


SAMPLES: tuple[AnyRecord, ...] = (
    records.Delta(
        digest=HASH_A,
        group=GROUP,
        clock=7,
        shard=3,
        base_version=6,
        codec="fp32",
        elements=6,
        presence=b"\x05",
        payload=PAYLOAD,
    ),
    records.Parameters(
        digest=HASH_A,
        version=700,
        head=HASH_B,
        shard=3,
        codec="fp32",
        elements=6,
        state_digest=HASH_A,
        payload=PAYLOAD,
    ),
    records.Snapshot(
        digest=HASH_A,
        version=0,
        head=records.NO_HASH,
        shard=3,
        tensor="master",
        codec="fp32",
        elements=6,
        payload=PAYLOAD,
    ),
    records.Proposal(
        run=UUID_A,
        worker="wörker-0",
        incarnation=UUID_B,
        config='{"name":"digits"}',
        layout="{}",
        shards=(HASH_A, HASH_B),
    ),
    records.Ready(run=UUID_A, worker="w0", incarnation=UUID_B, version=0),
    records.Heartbeat(
        run=UUID_A,
        member="server-1",
        incarnation=UUID_B,
        role="server",
        version=700,
        clock=-1,
        waiting_share=0.125,
        counters={"duplicates": 3, "bytes": 2**40},
    ),
    records.Contribution(
        run=UUID_A,
        group=GROUP,
        clock=7,
        base_version=6,
        base_head=HASH_A,
        weight=64.0,
        loss=2.302585092994046,
        cursor=448,
        shards=4,
        root=HASH_B,
        learning_rates=(2e-3, 1e-3),
        samples=(_range(3, 4_096, 40), _range(4, 0, 24)),
    ),
    records.Skip(
        run=UUID_A,
        group=GROUP,
        clock=8,
        base_version=7,
        base_head=HASH_A,
        cursor=512,
        reason="overflow",
        samples=(_range(4, 24, 64),),
    ),
    records.Leave(run=UUID_A, worker="w0", incarnation=UUID_B, reason="interrupted"),
    records.StopRequest(run=UUID_A, sender="command-host-7", reason="stopped by command"),
    records.Receipt(
        run=UUID_A,
        server="server-0",
        incarnation=UUID_B,
        group=GROUP,
        clock=7,
        shards=tuple(
            records.ShardReceipt(shard=shard, partition=shard % 2, offset=12_345 + shard, digest=HASH_A)
            for shard in range(4)
        ),
        refusal="",
    ),
    records.ServerState(
        run=UUID_A,
        server="server-0",
        incarnation=UUID_B,
        version=700,
        head=HASH_A,
        partitions=(
            records.PartitionPosition(partition=0, position=99),
            records.PartitionPosition(partition=2, position=0),
        ),
        shards=(records.ShardDigest(shard=0, version=698, state=HASH_A, masters=HASH_B),),
        failure="",
        counters={},
    ),
    records.UndecodableReport(
        run=records.NO_RUN,
        reader="server-0",
        stream="deltas",
        partition=1,
        offset=17,
        reason="an empty value",
        first_bytes=b"",
    ),
    records.Tick(run=UUID_A, term=3, sequence=1_000_000),
    records.EvaluationReport(
        run=UUID_A,
        evaluator="eval-0",
        incarnation=UUID_B,
        version=700,
        head=HASH_A,
        metrics={"loss": float("nan"), "accuracy": 0.96875},
    ),
    records.TermStart(term=1, parent=records.NO_HASH, nonce=UUID_A, coordinator="server-0", incarnation=UUID_B),
    records.RunStart(
        term=1,
        parent=HASH_A,
        run=UUID_A,
        name="digits",
        config='{"name":"digits"}',
        layout="{}",
        layout_fingerprint=HASH_B,
        partitions=4,
        shards=(HASH_A, HASH_B),
        proposer="w0",
    ),
    records.Membership(
        term=1,
        parent=HASH_A,
        joins=(records.Join(worker="w0", incarnation=UUID_A), records.Join(worker="w1", incarnation=UUID_B)),
        removals=(records.Removal(group=GROUP, worker="w2", reason="12 ticks without a heartbeat"),),
        raised=2,
    ),
    records.Lease(
        term=3,
        parent=HASH_A,
        grants=(
            records.Grant(group=GROUP, samples=_range(3, 4_096, 256)),
            records.Grant(group=GroupId(12, 0), samples=_range(4, 2**40, 1)),
        ),
    ),
    records.Version(
        term=3,
        parent=HASH_A,
        version=701,
        uses=tuple(
            records.Use(
                group=GroupId(12, index),
                clock=700 + index,
                kind=kind,
                base_version=700,
                staleness=index,
                weight=64.0,
                loss=0.5,
                cursor=44_800,
                coefficient=coefficient,
                root=HASH_B,
                learning_rates=(2e-3, 1e-3) if index else (),
                samples=(_range(3, 128 * index, 64),) if index else (),
            )
            for index, (kind, coefficient) in enumerate(
                [("delta", 0.5), ("delta", float(np.float32(1 / 3))), ("skip", 0.0)]
            )
        ),
        learning_rates=(1e-3, 5e-4),
        rho=1.0,
        positions=(17, -1, 2**40, 0),
        publish=True,
        states=_STATES,
        buffers_of=1,
    ),
    records.Publish(term=3, parent=HASH_A, version=701, states=_STATES),
    records.Rejection(
        term=3,
        parent=HASH_A,
        group=GROUP,
        clock=9,
        reason="shard 3: NaN in decoder.weight",
        burned=(_range(4, 88, 8),),
    ),
    records.Evaluation(term=3, parent=HASH_A, version=701, evaluator="eval-0", metrics={"accuracy": 0.96875}),
    records.RunEnd(term=3, parent=HASH_A, version=701, reason="steps", failure="", states=_STATES),
    records.Checkpoint(term=3, parent=HASH_A, version=700, floors=(17, 0), places=_PLACES, state=(_STATE,)),
    records.SnapshotReport(
        run=UUID_A,
        server="server-1",
        incarnation=UUID_B,
        version=700,
        head=HASH_B,
        partition=1,
        floor=17,
        places=_PLACES,
    ),
)
"""One record of each type, the same for ever: their bytes are in ``unit/golden/records``."""
