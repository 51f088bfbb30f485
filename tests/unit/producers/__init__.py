"""Tests of a worker's half of the protocol."""
