"""The coordinator: one role inside the server group that turns events into the ledger. Pure.

Entry points: `coordinator.Coordinator` (leads a term, writes one record at a time, steps down) and `decisions.decide`,
a pure function of the ledger's fold and of the pending `evidence`. The modules ``pending_*`` hold that evidence by
subject, until the ledger settles it.

May import ``ledger``, ``rules``, ``schemas`` and what is below; the server's half is closed to it. The rule that closes
a version stands in `driftline.ledger.policy`, not here: readers need it, too.
"""
