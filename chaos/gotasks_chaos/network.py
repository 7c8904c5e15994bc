"""The lines between a run's processes and its database, kept by a thread of its own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from anyio.from_thread import BlockingPortal, start_blocking_portal

from gotasks_chaos.profiles import FaultKind
from gotasks_chaos.proxy import Line, Proxy

LINES: Final = {
    FaultKind.SLOW_LINE: Line.SLOW,
    FaultKind.SWALLOWING_LINE: Line.SWALLOWING,
    FaultKind.CUT_LINE: Line.CUT,
    FaultKind.DEAF_LINE: Line.DEAF,
    FaultKind.LATE_LINE: Line.LATE,
}
_DELAY_SECONDS: Final = 0.15


class Network:
    """One line for each slot of a run."""

    def __init__(self, portal: BlockingPortal, proxies: list[Proxy]) -> None:
        self._portal = portal
        self._proxies = proxies

    def uri(self, number: int) -> str:
        """Tell the way to the database for one slot."""
        # Directly: a member of a set would tell its own address, and be reached past the proxy.
        return f"mongodb://127.0.0.1:{self._proxies[number].port}/?directConnection=true"

    def spoil(self, number: int, kind: FaultKind) -> None:
        """Spoil a line, until it is mended or spoilt otherwise."""
        self._portal.call(lambda: self._proxies[number].set_line(LINES[kind], delay=_DELAY_SECONDS))

    def mend(self, number: int) -> None:
        """Make a line sound again."""
        self._portal.call(self._proxies[number].set_line, Line.SOUND)


@contextmanager
def network(slots: int, host: str, port: int) -> Generator[Network]:
    """Lay a line for each slot."""
    proxies = [Proxy(host, port) for _ in range(slots)]
    with start_blocking_portal() as portal:
        laid = [portal.wrap_async_context_manager(proxy.serving()) for proxy in proxies]
        entered = [each.__enter__() for each in laid]
        try:
            yield Network(portal, entered)
        finally:
            for each in laid:
                each.__exit__(None, None, None)
