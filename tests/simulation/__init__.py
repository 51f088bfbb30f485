"""Seeded simulation of whole runs: the real state machines, a log in memory, a clock moved by hand, and faults.

The same seed always gives the same events. `python -m tests.simulation --seed N` replays one; `docs/simulation.md` says
what is simulated and what is promised. The rooms, each of which imports only those above it:

- `run`: what one simulated run is made of: scenario, problem, processes, log.
- `promises`: what must hold of it, with references written apart from the state machines.
- `world`: what happens in it: scheduler, sends, faults, one seed from beginning to end.
- `deaths`: a process dies at every point between two steps.
- `planted`: bugs put into the state machines, which the simulation must find.
- `seeds`: many seeds, in blocks and processes, and what they add up to.
"""
