"""The two roles of a server process: the `coordinator`, which decides, and the `server`, which holds the shards.

Entry point: `server.serving.serve`. Both roles are pure state machines and share one fold of the ledger; `runtime`
drives them. May import ``ledger``, ``rules``, ``runtime``, ``schemas`` and what is below. Never here: torch, or what a
worker does.
"""
