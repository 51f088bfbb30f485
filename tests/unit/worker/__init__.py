"""Tests of a worker of a run."""
