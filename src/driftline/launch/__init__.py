"""A whole run on one machine: processes, logs, faults on purpose, disk watch."""
