"""Tests of what drives state machines on a broker."""
