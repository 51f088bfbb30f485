"""The ledger's fence: which records count, decided alike by every reader.

Two rules, and nothing else:

- ``TermStart`` is valid when its term is higher than the current one, whatever its parent; a term beyond `LEAP_TERM`
  must be the very next one;
- any other record is valid when its parent is the current head and its term the current one.

A valid record moves the head: head' = SHA-256(head ‖ record bytes). A void record leaves it unchanged.
"""

from typing import Final

from driftline.schemas.digests import next_head
from driftline.schemas.records import NO_HASH, LedgerRecord, TermStart

LEAP_TERM: Final = 2**62
"""Up to here a term may leave others out. A candidate never does; counted, a record far beyond could leave no higher
term of 64 bits for the next coordinator."""


class Chain:
    """Running hash and term of the ledger, as far as it has been read.

    Attributes:
        head: hash over every valid record so far; `NO_HASH` before the first.
        term: the current one; 0 before the first.
        valid: how many records counted.
        void: how many did not.
    """

    def __init__(self) -> None:
        self.head = NO_HASH
        self.term = 0
        self.valid = 0
        self.void = 0

    def accept(self, record: LedgerRecord, value: bytes) -> bool:
        """Move the head over ``record`` (whose bytes are ``value``) if it is valid; return whether it is."""
        if not self._is_valid(record):
            self.void += 1
            return False
        self.head = next_head(self.head, value)
        self.term = record.term
        self.valid += 1
        return True

    def _is_valid(self, record: LedgerRecord) -> bool:
        if isinstance(record, TermStart):
            return self.term < record.term <= max(LEAP_TERM, self.term + 1)
        return record.term == self.term and record.parent == self.head
