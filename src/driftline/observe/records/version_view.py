"""One version of a model, as the ledger made it: which contributions, how stale, and how many bytes."""

from collections.abc import Mapping
from dataclasses import dataclass

from driftline.errors import UsageError
from driftline.ledger.run_state import RunState
from driftline.observe.records.annotated_ledger import AnnotatedLedger
from driftline.observe.records.values import finite
from driftline.schemas.model.tensors import FP32_BYTES
from driftline.schemas.records import Use, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class UseView:
    """One clock that a version settles.

    Attributes:
        group: ``offset.index`` of the join that made it, in the ledger.
        kind: ``delta``, or ``skip`` (nothing was computed, nothing is added).
        staleness: versions between its base version and the version before this one.
        weight: loss denominator, usually samples.
        loss: None if it is no finite number.
        samples: leased samples that it has used up, in words.
        payload_bytes: of its deltas, all shards together.
    """

    worker: str
    group: str
    clock: int
    kind: str
    base_version: int
    staleness: int
    weight: float
    loss: float | None
    coefficient: float
    root: str
    samples: tuple[str, ...]
    payload_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionView:
    """One version.

    Attributes:
        offset: of the ledger record that made it; of the run's start for version 0.
        timestamp_ms: append time of that record at the broker.
        term: the term that made it.
        head: hash over the ledger up to it.
        published: whether its parameters were written.
        digest: of the whole state, None while the ledger does not hold it.
        rho: what moment rates were damped by.
        positions: partition → first offset of the deltas behind those used; partitions without any are left out.
        metrics: on held-out data; None for what is no finite number.
        payload_bytes: of all deltas that it used.
    """

    run: str
    version: int
    offset: int
    timestamp_ms: int
    term: int
    head: str
    published: bool
    digest: str | None
    parameters_digest: str | None
    learning_rates: tuple[float, ...]
    rho: float
    positions: Mapping[str, int]
    metrics: Mapping[str, float | None]
    payload_bytes: int
    uses: tuple[UseView, ...]


def check_version(version: int | None, state: RunState) -> int:
    """Return the number of a version; None is the newest.

    Raises:
        UsageError: the ledger does not have it.
    """
    if not state.has_begun:
        raise UsageError("the run has not started, so it has no version yet")
    if version is None:
        return state.version
    if not 0 <= version <= state.version:
        raise UsageError(f"there is no version {version}: the run has 0 to {state.version}")
    return version


def view_version(run: str, version: int, ledger: AnnotatedLedger) -> VersionView:
    """Describe a version that the ledger has; 0 is that of the run's start.

    Args:
        run: its name.
        version: from 0 to the newest.
        ledger: the whole ledger, with every entry.
    """
    state = ledger.state
    record = state.versions.get(version)
    entry = next(one for one in ledger.entries if one.counts and (one.head == state.heads[version]))
    uses = () if record is None else tuple(_use(use, ledger) for use in record.uses)
    digests = state.states.get(version)
    measured = state.evaluations.get(version)
    metrics = {} if measured is None else measured.metrics
    return VersionView(
        run=run,
        version=version,
        offset=entry.offset,
        timestamp_ms=entry.timestamp_ms,
        term=entry.term,
        head=state.heads[version].hex(),
        published=version in state.publish_points,
        digest=None if digests is None else digests.state.hex(),
        parameters_digest=None if digests is None else digests.parameters.hex(),
        learning_rates=() if record is None else record.learning_rates,
        rho=1.0 if record is None else record.rho,
        positions=_positions(record),
        metrics={name: finite(value) for name, value in sorted(metrics.items())},
        payload_bytes=sum(use.payload_bytes for use in uses),
        uses=uses,
    )


def _positions(record: Version | None) -> dict[str, int]:
    positions = () if record is None else record.positions
    return {str(partition): offset for partition, offset in enumerate(positions) if offset >= 0}


def _use(use: Use, ledger: AnnotatedLedger) -> UseView:
    elements = ledger.state.layout.elements if use.kind == "delta" else 0
    return UseView(
        worker=ledger.name(use.group),
        group=str(use.group),
        clock=use.clock,
        kind=use.kind,
        base_version=use.base_version,
        staleness=use.staleness,
        weight=use.weight,
        loss=finite(use.loss),
        coefficient=use.coefficient,
        root=use.root.hex(),
        samples=tuple(str(one) for one in use.samples),
        payload_bytes=elements * FP32_BYTES,
    )
