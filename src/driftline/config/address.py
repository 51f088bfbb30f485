"""Where metrics are served: HOST:PORT, or a port alone, which only this machine reaches."""

from driftline.config.problems import Problems
from driftline.telemetry.exporting import Address

LOCAL = "127.0.0.1"
MOST_PORT = 65_535


def read_address(option: str, text: str | None, problems: Problems) -> Address | None:
    """Return the address that was asked for; None if none was. What is wrong is added to ``problems``."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOCAL
    if not (port.isascii() and port.isdigit()) or int(port) > MOST_PORT or " " in host:
        problems.add(f'{option}: {text!r} is no address to listen on: write HOST:PORT, for example "0.0.0.0:9464"')
        return None
    return host, int(port)


def read_first_address(option: str, text: str | None, count: int, problems: Problems) -> Address | None:
    """Return the first address of ``count`` processes, whose ports count up from it; None if none was asked for."""
    first = read_address(option, text, problems)
    if first is None or 0 < first[1] <= MOST_PORT + 1 - count:
        return first
    problems.add(
        f"{option}: {text!r}: {count} processes have a port each, counting up from the one that is named, so it lies "
        f"between 1 and {MOST_PORT + 1 - count}"
    )
    return None
