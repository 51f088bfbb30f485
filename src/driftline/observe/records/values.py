"""Values as a person and as JSON get them."""

import math


def count(number: int, thing: str) -> str:
    """Write a number of things: ``1 worker``, ``2 workers``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def finite(value: float) -> float | None:
    """Return a number that JSON can hold; None for NaN and infinity."""
    return value if math.isfinite(value) else None
