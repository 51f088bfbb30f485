"""Proof of a run: the ledger is intact, and recomputing it gives the recorded bits.

Entry points: `reading.verify_run` reads a run to its present end; `verifier.Verifier` is the pure core, which takes the
records of all streams and returns a `report.Report`. One module proves one stream: `ledger`, `deltas`, `published`;
`partition` recomputes the shards of one partition, and `findings` collects what is wrong, with its place.
"""
