"""What `driftline show` shows: a record of any stream, a version, or the difference of two versions.

`selection` parses what a person asks for, `lookup` reads it, the views describe it, and `annotated_ledger` holds the
fold together with the reason why a record does not count.
"""
