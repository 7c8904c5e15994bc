"""Letting go of operations whose answer nobody is going to give.

A primary that freezes, or whose line goes dead, breaks no connection: the driver waits for its
answer until the operation's time is up, though another primary was elected long ago. Workers
try again and should do so soon; what may be done twice is sent once more. For all else callers
would get an error for what may succeed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from anyio import CancelScope
from pymongo.errors import AutoReconnect
from pymongo.topology_description import TopologyDescription

# So long the driver has to send the operation, once more, to the new primary.
_GRACE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.25


class PrimaryReplacedError(AutoReconnect):
    """The operation was let go of; the old primary may have carried it out."""


@dataclass(slots=True, eq=False)
class _Awaited:
    """An operation under way. ``since``: when another primary than its own was seen."""

    scope: CancelScope
    primary: object
    since: float | None = None


class Elections:
    """Ends operations of one event loop that began under a primary that is none any more."""

    def __init__(self, primary: Callable[[], object]) -> None:
        self._primary = primary
        self._under_way: set[_Awaited] = set()
        self._next_look: asyncio.TimerHandle | None = None

    @contextmanager
    def followed(self) -> Generator[None]:
        """Await an operation, unless its primary has been replaced and it goes on for a second.

        Raises:
            PrimaryReplacedError: it was ended.
        """
        awaited = _Awaited(CancelScope(), self._primary())
        with awaited.scope:
            self._under_way.add(awaited)
            self._look_again()
            try:
                yield
            finally:
                self._under_way.discard(awaited)
        if awaited.scope.cancelled_caught:
            msg = f"another primary was elected, and {awaited.primary} does not answer"
            raise PrimaryReplacedError(msg)

    def _look_again(self) -> None:
        if self._next_look is None:
            loop = asyncio.get_running_loop()
            self._next_look = loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = None
        now, primary = asyncio.get_running_loop().time(), self._primary()
        for awaited in self._under_way:
            if awaited.primary is None:
                awaited.primary = primary
            if primary is None or primary == awaited.primary:
                awaited.since = None
            elif awaited.since is None:
                awaited.since = now
            elif now - awaited.since >= _GRACE_SECONDS:
                awaited.scope.cancel()
        if self._under_way:
            self._look_again()


def primary_of(topology: TopologyDescription) -> object:
    """Tell the address of the primary of a replica set, as far as the driver knows of one."""
    for address, server in topology.server_descriptions().items():
        if server.server_type_name == "RSPrimary":
            return address
    return None
