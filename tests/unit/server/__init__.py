"""Tests of the server: shards, partitions, snapshots."""
