"""Proof of a run: the ledger is intact, and recomputing it gives the recorded bits."""
