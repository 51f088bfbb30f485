"""Pairs ``name=value`` in one variable of the environment."""

from collections.abc import Mapping


def split_pairs(text: str) -> list[str]:
    """Return the pairs in a variable: one a line, however lines end.

    A value may have several lines: those of a PEM block belong to the pair before, and so does a line that begins with
    a tab, without that tab (see `join_pairs`).
    """
    pairs: list[str] = []
    in_block = False
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if pairs and (in_block or line.startswith(("\t", "-----BEGIN"))):
            pairs[-1] += f"\n{line.removeprefix(chr(9))}"
        elif line.strip():
            pairs.append(line)
        in_block = "-----BEGIN" in line.rpartition("-----END")[2] or (in_block and "-----END" not in line)
    return pairs


def join_pairs(values: Mapping[str, str]) -> str:
    """Return pairs as one variable, which `split_pairs` reads."""
    return "\n".join(f"{name}={value}".replace("\n", "\n\t") for name, value in values.items())
