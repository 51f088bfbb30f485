"""The fold of the ledger that every role shares. Pure: records in, state out.

Entry points: `run_state.RunState` (the fold), `policy` (when a version closes, when a clock starts, what a late
contribution counts for), `follower.ModelReader` (the ledger and whole models) and `entering`, which reads the ledger of
a real log from its last checkpoint on.

May import ``rules``, ``schemas``, ``broker`` and what is below. Never here: a role's own work (evidence and decisions
are the coordinator's, shards the server's), torch, threads or clocks.
"""
