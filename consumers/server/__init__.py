"""A parameter server: deltas in; receipts, parameters and snapshots out.

Entry points: `serving.serve`, the process; `server.Server`, the state machine of both roles; `shard_server.ShardServer`
takes deltas and applies versions; `shard_owner.ShardOwner` gets partitions and rebuilds their state.

Everything but `serving` is pure. May import ``consumers.coordinator``, ``ledger``, ``rules``, ``schemas``, and
``runtime`` in `serving`. Never here: which contributions a version uses (the ledger says so), or torch.
"""
