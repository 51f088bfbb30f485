"""Deaths of a process at every point between two steps of an update, a snapshot and a takeover.

`python -m tests.simulation.deaths` plays all points and prints the counts.
"""
