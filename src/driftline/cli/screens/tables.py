"""A run's status for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from driftline.observe.run.status import RunStatus, ServerStatus, WorkerStatus

NOTHING = "-"


def say(line: str) -> None:
    """Tell the person at the terminal something that is no result."""
    click.echo(line, err=True)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with the columns aligned."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def status_lines(seen: "RunStatus") -> list[str]:
    """Return everything that a person wants to know of a run."""
    facts = [
        ("run", seen.run),
        ("uuid", seen.uuid or NOTHING),
        ("state", _state(seen)),
        ("version", f"{seen.version}" + ("" if seen.steps is None else f" of {seen.steps}")),
        ("metrics", _metrics(seen)),
        ("loss", NOTHING if seen.loss is None else f"{seen.loss:.4f} (training batches)"),
        ("digest", _digest(seen.digest, seen)),
        ("parameters", _digest(seen.parameters_digest, seen)),
        ("mode", f"{seen.mode or NOTHING}, topology {seen.topology or NOTHING}, term {seen.term}"),
        ("samples", _samples(seen)),
        ("staleness", _staleness(seen)),
        ("not used", _not_used(seen)),
        ("written", f"{seen.wire_bytes / 1e6:.1f} MB of gradients and parameters"),
        ("kept", NOTHING if seen.kept_bytes is None else f"{seen.kept_bytes / 1e6:.1f} MB of gradients, in each copy"),
    ]
    return [*table(facts), *worker_lines(seen.workers), *server_lines(seen.servers)]


def _state(seen: "RunStatus") -> str:
    """Say where the run stands, and of one that does not begin what it waits for."""
    if seen.ended is not None:
        return f"{seen.state}: {seen.ended.failure or seen.ended.reason}"
    hints = {
        "empty": f": not begun; that takes a worker, and a server: driftline server {seen.run}",
        "waiting": f" for its first workers; who is here already: driftline top {seen.run}",
    }
    return seen.state + hints.get(seen.state, "")


def run_facts(seen: "RunStatus") -> list[tuple[str, str]]:
    """Return what is said of a run in a few lines of a screen: what was measured, how late work was, what was lost."""
    return [("metrics", _metrics(seen)), ("staleness", _staleness(seen)), ("not used", _not_used(seen))]


def worker_lines(workers: "Sequence[WorkerStatus]") -> list[str]:
    """Return a table of workers, with an empty line before it."""
    if not workers:
        return []
    head = ("worker", "state", "clock", "contributions", "skips", "rejected", "waiting", "incarnation")
    rows = [
        (
            one.name,
            one.state,
            str(one.clock),
            str(one.contributions),
            str(one.skips),
            str(one.rejections),
            NOTHING if one.waiting_share is None else f"{one.waiting_share:.0%}",
            one.incarnation[:8],
        )
        for one in workers
    ]
    notes = [f"{one.name} was removed: {one.note}" for one in workers if one.state == "removed"]
    return ["", *table([head, *rows]), *notes]


def server_lines(servers: "Sequence[ServerStatus]") -> list[str]:
    """Return a table of servers, with an empty line before it."""
    if not servers:
        return []
    head = ("server", "state", "version", "partitions", "shards", "incarnation")
    rows = [
        (
            one.name,
            one.state,
            str(one.version),
            ", ".join(map(str, one.partitions)) or NOTHING,
            ranges(one.shards) or NOTHING,
            one.incarnation[:8],
        )
        for one in servers
    ]
    return ["", *table([head, *rows])]


def ranges(numbers: Sequence[int]) -> str:
    """Write sorted whole numbers short: ``0-3, 7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def summary_lines(seen: "RunStatus", training_s: float, whole_s: float) -> list[str]:
    """Return what ``train`` says at its end: ``training_s`` is the part of ``whole_s`` that made versions."""
    verb = "failed at" if seen.ended is not None and seen.ended.failure else "ended at"
    head = f"run {seen.run} {verb} version {seen.version}: {_time(training_s, whole_s)}"
    facts = [
        ("metrics", _metrics(seen)),
        ("digest", _digest(seen.digest, seen)),
        ("samples", _samples(seen)),
        ("staleness", _staleness(seen)),
        ("written", f"{seen.wire_bytes / 1e6:.1f} MB of gradients and parameters"),
        ("kept", NOTHING if seen.kept_bytes is None else f"{seen.kept_bytes / 1e6:.1f} MB of gradients, in each copy"),
        *((one.name, _contributions(one)) for one in seen.workers),
        *((one.name, f"shards {ranges(one.shards) or NOTHING}") for one in seen.servers),
    ]
    return [head, *(f"  {line}" for line in table(facts))]


def _time(training_s: float, whole_s: float) -> str:
    """Say how long it took: a continued run has trained since before this command began."""
    if training_s > whole_s:
        return f"{training_s:.1f} s after it began, {whole_s:.1f} s of them in this command"
    return f"{training_s:.1f} s of training, {whole_s:.1f} s in all"


def _samples(seen: "RunStatus") -> str:
    """Say how many samples went into versions, and of leased ones how often all of them did."""
    total = f"{seen.samples:,}"
    if seen.epoch is None:
        return total
    of = "" if seen.epochs is None else f" of {seen.epochs}"
    discarded = f", {seen.discarded:,} discarded" if seen.discarded else ""
    return f"{total}; {seen.epoch}{of} epochs used up{discarded}"


def _staleness(seen: "RunStatus") -> str:
    """Say how late contributions were; the object of ``--json`` has the number of each."""
    counts = {int(late): count for late, count in seen.staleness.items()}
    total = sum(counts.values())
    if not total:
        return NOTHING
    worst = max(counts)
    if not worst:
        return f"0 versions in all of {total:,} contributions"
    mean = sum(late * count for late, count in counts.items()) / total
    return f"at most {worst} version{'' if worst == 1 else 's'}, {mean:.1f} on average, of {total:,} contributions"


def _contributions(worker: "WorkerStatus") -> str:
    extra = [f"{worker.rejections} rejected"] if worker.rejections else []
    extra += [f"removed: {worker.note}"] if worker.state == "removed" else []
    return ", ".join([f"{worker.contributions} contributions", *extra])


def _not_used(seen: "RunStatus") -> str:
    counts = {"rejected": seen.rejected, "duplicates": seen.duplicates, "void": seen.void}
    counts["undecodable"] = seen.undecodable
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _metrics(seen: "RunStatus") -> str:
    if seen.metrics_version is None:
        return NOTHING
    values = [f"{name} {NOTHING if value is None else format(value, '.4f')}" for name, value in seen.metrics.items()]
    return f"{', '.join(values)} (version {seen.metrics_version}, held-out data)"


def _digest(digest: str | None, seen: "RunStatus") -> str:
    if digest is None:
        return NOTHING
    return digest if seen.digest_version == seen.version else f"{digest} (version {seen.digest_version})"
