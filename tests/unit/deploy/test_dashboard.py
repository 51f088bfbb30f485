"""The dashboard: importable, every expression is PromQL, and it asks for nothing that no process reports."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
from prometheus_client import ProcessCollector

from driftline.telemetry.catalogue import MEMBER_LABELS, METRICS
from driftline.telemetry.metrics import Kind
from tests.support import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "driftline.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
EXPRESSIONS += [one["target"]["expr"] for one in DASHBOARD["annotations"]["list"] if "target" in one]

SERIES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.SUMMARY: ("_sum", "_count")}
SCRAPED = {"instance", "job", "le"}
"""Labels that Prometheus adds, and that of a bucket's bound."""


def series() -> dict[str, set[str]]:
    """Return every time series that a process reports, with its labels."""
    found = {
        f"{metric.name}{suffix}": {*MEMBER_LABELS, *metric.labels, *SCRAPED}
        for metric in METRICS
        for suffix in SERIES.get(metric.kind, ("",))
    }
    process = {one.name for family in ProcessCollector(registry=None).collect() for one in family.samples}
    return found | dict.fromkeys(process, SCRAPED)


def selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    """Yield every selector in a parsed expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    elif isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector
    elif isinstance(node, promql_parser.BinaryExpr):
        yield from selectors(node.lhs)
        yield from selectors(node.rhs)
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            yield from selectors(argument)
    elif isinstance(node, promql_parser.AggregateExpr | promql_parser.SubqueryExpr | promql_parser.ParenExpr):
        yield from selectors(node.expr)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_what_is_reported(expression: str) -> None:
    """Each name is one of the catalogue's, and each label one of that metric's."""
    known = series()
    found = list(selectors(promql_parser.parse(expression)))
    assert found, "no metric in it"
    for selector in found:
        assert selector.name is not None
        assert selector.name in known
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= known[selector.name]
        assert "run" in labels or selector.name.startswith("process_")
    grouped = {label.strip() for by in re.findall(r"\bby \(([^)]*)\)", expression) for label in by.split(",")}
    assert grouped <= set.union(*(known[str(selector.name)] for selector in found))


@pytest.mark.parametrize(
    "wrong", ["sum(driftline_no_such_thing{run='x'})", "driftline_version{worker='x', run='x'}", "1"]
)
def test_a_wrong_expression_would_be_found(wrong: str) -> None:
    """The test above can fail."""
    with pytest.raises(AssertionError):
        test_an_expression_asks_for_what_is_reported(wrong)


def test_a_legend_only_names_labels_that_are_left() -> None:
    """An aggregation that drops a label would leave a hole in the legend."""
    for panel in PANELS:
        for target in panel["targets"]:
            parsed = promql_parser.parse(target["expr"])
            if isinstance(parsed, promql_parser.AggregateExpr):
                left = set(parsed.modifier.labels) if parsed.modifier is not None else set()
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left, target


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """It names its source by a variable, and panels neither share a number nor lie on each other."""
    assert {one["name"]: one["type"] for one in DASHBOARD["templating"]["list"]} == {
        "datasource": "datasource",
        "run": "query",
    }
    assert "id" not in DASHBOARD
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert all(panel["datasource"]["uid"] == "${datasource}" and panel["description"] for panel in PANELS)


def test_most_of_the_catalogue_is_on_the_dashboard() -> None:
    """A metric on no panel is worth a second thought."""
    shown = {selector.name for expression in EXPRESSIONS for selector in selectors(promql_parser.parse(expression))}
    plain = {re.sub(r"_(bucket|sum|count)$", "", str(name)) for name in shown}
    unseen = {metric.name for metric in METRICS} - plain
    assert unseen == {
        "driftline_samples_total", "driftline_records_total", "driftline_clock", "driftline_held_deltas",
        "driftline_partitions_owned", "driftline_reigns_total", "driftline_leaderships_total",
        "driftline_rebuilds_total",        "driftline_began_at_version", "driftline_checkpoints_passed_over_total",
    }  # fmt: skip


def test_grafana_finds_source_and_dashboard_where_compose_puts_them() -> None:
    """One source, which is the default, at the address of the service; one folder, which compose mounts."""
    (sources,) = (GRAFANA / "provisioning" / "datasources").glob("*.yml")
    assert "url: http://prometheus:9090\n    isDefault: true" in sources.read_text()
    (provider,) = (GRAFANA / "provisioning" / "dashboards").glob("*.yml")
    assert "path: /var/lib/grafana/dashboards" in provider.read_text()
