"""Runs of real processes on a real Kafka, some of which are killed, held against what must be true afterwards.

Workers compute without torch, so that a run takes seconds: the quadratic of the simulation, whose final bits a plain
loop gives as well.
"""
