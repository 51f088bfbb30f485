"""The catalogue of metrics: every metric is documented, and named by the rules of Prometheus."""

import re

from prometheus_client import ProcessCollector

from driftline.ledger.rejection_reasons import OTHER, REASONS
from driftline.telemetry.catalogue import MEMBER_LABELS, METRICS
from driftline.telemetry.metrics import Kind
from tests.support import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()


def rows() -> dict[str, tuple[str, set[str]]]:
    """Return the page's table: metric → type and own labels."""
    found = re.findall(r"^\| `(driftline_\w+)` \| (\w+) \|[^|]*\|([^|]*)\|", PAGE, re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in found}


def test_the_page_names_every_metric_with_its_type_and_labels_and_no_other() -> None:
    assert rows() == {metric.name: (metric.kind.value, set(metric.labels)) for metric in METRICS}


def test_the_page_names_what_the_library_adds() -> None:
    names = {sample.name for family in ProcessCollector(registry=None).collect() for sample in family.samples}
    assert names <= set(re.findall(r"`(process_\w+)`", PAGE))


def test_the_page_names_every_reason() -> None:
    for reason in (*REASONS.values(), OTHER):
        assert f"`{reason}`" in PAGE


def test_names_follow_the_rules_of_prometheus() -> None:
    """Counters end with _total, nothing else does; every name is ours; labels never hide those of the process."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("driftline_")
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert not set(metric.labels) & set(MEMBER_LABELS)
        assert re.fullmatch(r"[A-Z0-9].*[^.]", metric.meaning)
