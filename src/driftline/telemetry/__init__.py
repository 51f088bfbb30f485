"""What a process reports about itself: log lines for people and machines, and metrics for Prometheus.

    logs        configure_logging, identify; lines as text or JSON, counted by level
    metrics     Metric, Sample and their values, pure
    catalogue   every metric that exists
    exporting   `exporting`: serve the metrics of one role, or do nothing without an address
    exporter    the HTTP server; the only module that imports ``prometheus_client``

Imports ``errors`` only. Never here: where a value comes from. Each role reads its own state machines and returns
samples.
"""

from driftline.telemetry.logs import FORMATS, LEVELS, configure_logging, counted_lines, forget_identity, identify

__all__ = ["FORMATS", "LEVELS", "configure_logging", "counted_lines", "forget_identity", "identify"]
