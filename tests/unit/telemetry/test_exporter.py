"""The exporter: Prometheus can read what it serves, and a port in use is one clear error."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from driftline.config.address import read_address
from driftline.config.problems import Problems
from driftline.consumers.server.metrics import server_samples
from driftline.errors import UsageError
from driftline.telemetry import catalogue
from driftline.telemetry.exporter import Exporter, check_free
from driftline.telemetry.exporting import address_text, metrics_url
from driftline.telemetry.metrics import Sample, Summary
from tests.support.small_model import small_run
from tests.support.still_run import StillRun

WHO = {"run": "small", "role": "server", "member": "server-1"}


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with Exporter("127.0.0.1", 0, WHO) as found:
        yield found


@pytest.fixture(scope="module")
def run() -> StillRun:
    """A run that stopped at version 5 of 40."""
    run = small_run("small", steps=40, snapshot_every=2)
    run.play(until_version=5)
    return run


def scraped(exporter: Exporter) -> dict[str, Family]:
    """Scrape as Prometheus does, and parse the answer with its own library."""
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as answer:
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def test_a_scrape_gives_values_labels_and_types(run: StillRun, exporter: Exporter) -> None:
    """Read back by Prometheus' own parser."""
    exporter.watch(lambda: server_samples(run.servers["server-1"]))
    found = scraped(exporter)
    version = found["driftline_version"]
    assert (version.type, version.samples[0].value, version.samples[0].labels) == ("gauge", 5.0, WHO)
    used = {sample.labels["worker"]: sample.value for sample in found["driftline_contributions"].samples}
    assert used == {"ada": 5.0, "bob": 5.0}
    staleness = {(one.name, one.labels.get("le")): one.value for one in found["driftline_staleness_versions"].samples}
    assert staleness["driftline_staleness_versions_bucket", "0.0"] == 10.0
    assert staleness["driftline_staleness_versions_bucket", "+Inf"] == 10.0
    assert staleness["driftline_staleness_versions_sum", None] == 0.0
    assert found["driftline_evaluation"].samples[0].labels == {**WHO, "metric": "distance"}


def test_a_scrape_without_a_source_is_no_error(exporter: Exporter) -> None:
    """A server that waits for its run."""
    assert {name for name in scraped(exporter) if name.startswith("driftline")} == {"driftline_log_lines"}


def test_a_later_source_replaces_the_first(exporter: Exporter) -> None:
    """A worker that joins again has a new session."""
    exporter.watch(lambda: [Sample(catalogue.CLOCK, 7)])
    exporter.watch(
        lambda: [Sample(catalogue.CLOCK, 1), Sample(catalogue.HANDLING, Summary(2, 0.5), {"input": "timer"})]
    )
    found = scraped(exporter)
    assert [one.value for one in found["driftline_clock"].samples] == [1.0]
    assert {one.name: one.value for one in found["driftline_handling_seconds"].samples} == {
        "driftline_handling_seconds_count": 2.0,
        "driftline_handling_seconds_sum": 0.5,
    }


def test_a_port_in_use_is_one_clear_error(exporter: Exporter) -> None:
    with pytest.raises(UsageError) as refused:
        Exporter("127.0.0.1", exporter.port, WHO)
    assert str(refused.value) == (
        f"--metrics 127.0.0.1:{exporter.port}: another process listens there already; "
        "choose another port, or 0 for a free one"
    )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_one_clear_error(host: str) -> None:
    with pytest.raises(UsageError, match=f"--metrics {host}:0: cannot listen there: "):
        Exporter(host, 0, WHO)


def test_the_port_is_free_again_afterwards() -> None:
    with Exporter("127.0.0.1", 0, WHO) as first:
        port = first.port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_an_address_is_written_as_it_is_read() -> None:
    for address in (("127.0.0.1", 9464), ("::1", 9464)):
        assert read_address("--metrics", address_text(address), Problems()) == address
    assert metrics_url(("::1", 9464)) == "http://[::1]:9464/metrics"


def test_a_port_is_checked_before_a_process_needs_it(exporter: Exporter) -> None:
    """With the exporter's own message; a free port stays free."""
    with pytest.raises(UsageError, match=f"--metrics 127.0.0.1:{exporter.port}: another process listens there already"):
        check_free("127.0.0.1", exporter.port)
    with pytest.raises(UsageError, match="no such port; start from a lower one"):
        check_free("127.0.0.1", 65_536)
    with Exporter("127.0.0.1", 0, WHO) as other:
        port = other.port
    check_free("127.0.0.1", port)
    with Exporter("127.0.0.1", port, WHO):
        pass
