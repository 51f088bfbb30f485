"""Why contributions are rejected, in a few fixed words, to be counted by. The ledger has the sentence."""

from typing import Final

REASONS: Final = {
    "stale by ": "stale",
    "not finite": "not_finite",
    "not whole ": "not_whole",
    "its weight ": "weight",
    "its base ": "unknown_base",
    "its deltas ": "root",
    "its samples ": "samples",
}
"""How the sentence begins → the word."""

DISCARDED: Final = frozenset({"not_finite", "weight"})
"""Reasons for which the samples are not read again: they themselves may have caused it."""

OTHER: Final = "other"
"""Of a sentence that none of these begins: a later release may write others."""


def reason_word(sentence: str) -> str:
    """Return the word of a rejection's reason."""
    return next((word for beginning, word in REASONS.items() if sentence.startswith(beginning)), OTHER)
