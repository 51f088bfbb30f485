"""What a process says about itself: log lines for people and machines, and figures for Prometheus."""

from driftline.telemetry.logs import (
    FORMATS,
    LEVELS,
    Counters,
    configure_logging,
    counted_lines,
    forget_identity,
    identify,
)

__all__ = ["FORMATS", "LEVELS", "Counters", "configure_logging", "counted_lines", "forget_identity", "identify"]
