"""What tests of several rooms stand on: runs to look at, cores on a stage, records, commands. Holds no test."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
