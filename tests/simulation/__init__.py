"""Seeded simulation of whole runs: the real state machines, a log in memory, a clock moved by hand, and faults.

The same seed always gives the same events. ``docs/simulation.md`` says what is simulated and what is promised.
"""
