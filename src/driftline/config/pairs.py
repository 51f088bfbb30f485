"""``name=value`` options, given as often as needed."""

from collections.abc import Iterable

from driftline.config.problems import Problems


def read_pairs(option: str, pairs: Iterable[str], problems: Problems) -> dict[str, str]:
    """Split each ``name=value`` at its first "=". A value is never repeated in a message: it may be a secret."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals:
            problems.add(f"{option} {name!r}: a value is missing; write {option} {name or 'name'}=VALUE")
        elif not name:
            problems.add(f"{option}: a name is missing before the '='; write {option} NAME=VALUE")
        elif name in values:
            problems.add(f"{option} {name}: is given twice; give it once")
        else:
            values[name] = value
    return values
