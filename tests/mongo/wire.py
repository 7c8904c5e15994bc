"""A wire to a server that can go dead without a word, as routers do to connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@dataclass(eq=False)
class _Connection:
    client: SocketStream
    server: SocketStream
    request: bytes = b""
    is_dead: bool = False

    async def run(self) -> None:
        async with self.client, self.server, anyio.create_task_group() as group:
            for pump in (self._ask, self._answer):
                group.start_soon(self._until_closed, pump, group.cancel_scope)

    async def _until_closed(
        self, pump: Callable[[], Awaitable[None]], scope: anyio.CancelScope
    ) -> None:
        try:
            while True:
                await pump()
        except _BROKEN:
            scope.cancel()

    async def _ask(self) -> None:
        self.request = await self.client.receive()
        if not self.is_dead:
            await self.server.send(self.request)

    async def _answer(self) -> None:
        answer = await self.server.receive()
        if not self.is_dead:
            await self.client.send(answer)


@dataclass
class Wire:
    """Passes on what clients and a server say, but for connections that are dead."""

    port: int
    connections: list[_Connection] = field(default_factory=list[_Connection])

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def cut(self, command: str) -> int:
        """Let connections that were last asked for a command go dead; tell how many."""
        asked = [each for each in self.connections if command.encode() + b"\0" in each.request]
        for each in asked:
            each.is_dead = True
        return len(asked)


@asynccontextmanager
async def a_wire(server_port: int) -> AsyncGenerator[Wire]:
    """Listen on a port of its own for the block."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    wire = Wire(listener.extra(SocketAttribute.local_port))

    async def connected(client: SocketStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", server_port)
        wire.connections.append(_Connection(client, server))
        await wire.connections[-1].run()

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, connected)
        yield wire
        group.cancel_scope.cancel()
