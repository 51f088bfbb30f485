"""A parameter server: deltas in, receipts and parameters out; shards, snapshots, recovery."""
