"""Entering the ledger of a run on a real log: where it begins, where a newcomer enters it, reading it to its end."""
