"""One worker of a run, the same for tasks and for scripts.

Entry points: `participation.Participation` (join, wait for a version, spend a clock, join again, leave),
`topics.RunTopics` (the run's topics, checked and made), `newest.read_newest`, and `order`, the order of samples.

May import ``config``, ``producers``, ``runtime``, ``ledger`` and below. Never here: torch, tasks, users' loops.
"""
