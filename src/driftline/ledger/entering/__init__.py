"""Entering the ledger of a run on a real log: at its last checkpoint, or at its beginning.

Entry points: `checkpoint.enter_ledger` finds where to begin; `reading.read_ledger` folds from there to the end;
`same_run.SameRun` notices that the topics hold another run by now. `entry` is the pure search behind them.

These functions read a broker, join no group and write nothing. What a role does with the fold belongs to the role.
"""
