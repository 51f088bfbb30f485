"""Where figures are served: HOST:PORT, or a port alone, which only this machine reaches."""

from driftline.config.problems import Problems

LOCAL = "127.0.0.1"
MOST_PORT = 65_535

Address = tuple[str, int]
"""Host and port; port 0 is any that is free."""


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
