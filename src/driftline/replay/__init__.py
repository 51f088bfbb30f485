"""Runs computed again from their log: today `verify`, later replay, search and forks.

Entry point: `verify.reading.verify_run`. Rooms here read a log and compute with ``ledger``, ``rules`` and ``schemas``;
they share the arithmetic of servers, never their state machines. Never here: writing to a log, joining a group, torch.
"""
