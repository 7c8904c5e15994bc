"""A TCP proxy between a process and its database, whose line can be spoilt.

What a network does to connections, in one place: it is slow, it swallows what is sent, it
cuts connections and takes no new ones, it carries one direction only, or it delivers what it
was given when nobody reckons with that any more.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream

_CHUNK: Final = 65_536
_BROKEN: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
# Closing then sends a reset instead of an orderly end.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Line(StrEnum):
    """The state of a line."""

    SOUND = "sound"
    SLOW = "slow"
    """Everything arrives, later."""
    SWALLOWING = "swallowing"
    """Connections stay open, and nothing arrives."""
    CUT = "cut"
    """Connections are reset, and new ones are too."""
    DEAF = "deaf"
    """Half open: requests arrive, answers do not."""
    LATE = "late"
    """Requests arrive once the line is something else, whether or not their sender still waits."""


_LOSSY: Final = frozenset({Line.SWALLOWING, Line.DEAF})


@dataclass(slots=True)
class _Connection:
    near: SocketStream
    far: SocketStream
    scope: anyio.CancelScope
    has_lost: bool = False

    def reset(self) -> None:
        for stream in (self.near, self.far):
            with suppress(*_BROKEN):
                _end_by_reset(stream)
        self.scope.cancel()


class Proxy:
    """Forwards what comes to ``port`` on loopback to a target, as well as its line is."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = (host, port)
        self._line = Line.SOUND
        self._delay = 0.0
        self._is_over = anyio.Event()
        self._connections: list[_Connection] = []

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def set_line(self, line: Line, *, delay: float = 0.0) -> None:
        """Change the state of the line, for connections that are open and those to come.

        A connection that has lost bytes is of no use any more: it is reset as soon as the
        line carries again. ``delay`` is that of a slow line, in seconds for each direction.
        """
        self._line = line
        self._delay = delay if line is Line.SLOW else 0.0
        self._is_over.set()
        self._is_over = anyio.Event()
        for each in list(self._connections):
            if line is Line.CUT or (each.has_lost and line not in _LOSSY):
                each.reset()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Proxy]:
        """Listen while the block runs; ``port`` tells where."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(SocketAttribute.local_port)  # noqa: S610  - not Django's
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve)
            try:
                yield self
            finally:
                group.cancel_scope.cancel()

    async def _serve(self, near: SocketStream) -> None:
        async with near:
            if self._line is Line.CUT:
                _end_by_reset(near)
                return
            with suppress(*_BROKEN):
                async with await anyio.connect_tcp(*self._target) as far:
                    await self._carry(near, far)

    async def _carry(self, near: SocketStream, far: SocketStream) -> None:
        async with anyio.create_task_group() as pumps:
            connection = _Connection(near, far, pumps.cancel_scope)
            self._connections.append(connection)
            try:
                pumps.start_soon(self._pump, connection, near, far)
                await self._pump(connection, far, near)
            finally:
                self._connections.remove(connection)

    async def _pump(
        self, connection: _Connection, source: SocketStream, sink: SocketStream
    ) -> None:
        with suppress(anyio.EndOfStream, *_BROKEN):
            while True:
                chunk = await source.receive(_CHUNK)
                if self._delay:
                    await anyio.sleep(self._delay)
                is_answer = sink is connection.near
                while self._line is Line.LATE and not is_answer:
                    await self._is_over.wait()
                if self._line is Line.SWALLOWING or (self._line is Line.DEAF and is_answer):
                    connection.has_lost = True
                    continue
                await sink.send(chunk)
        connection.scope.cancel()


def _end_by_reset(stream: SocketStream) -> None:
    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610  - not Django's
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
