"""Reading server-sent events from an application, as they are sent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream


@dataclass
class Stream:
    """What comes from one request for events."""

    messages: MemoryObjectReceiveStream[Mapping[str, Any]]
    status: int = 0
    ended: bool = False

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield the name and the data of each event."""
        async for message in self.messages:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                continue
            for block in message.get("body", b"").decode().split("\n\n"):
                name, separator, data = block.partition("\ndata: ")
                if separator:
                    yield name.removeprefix("event: "), json.loads(data)
            if not message.get("more_body"):
                self.ended = True
                return

    async def next(self) -> tuple[str, Any]:
        async for event in self.events():
            return event
        raise AssertionError("the stream ended")

    async def until_changed(self, kind: str, value: str) -> Any:
        """Wait for an update that says that something has changed."""
        async for name, data in self.events():
            assert name == "update", data
            if value in data["changed"][kind]:
                return data
        raise AssertionError("the stream ended")


@asynccontextmanager
async def streaming(app: Any) -> AsyncGenerator[Stream]:
    """Ask for events, and go away at the end of the block."""
    gone = anyio.Event()
    sender, receiver = anyio.create_memory_object_stream[Mapping[str, Any]](100)

    async def receive() -> Mapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def run() -> None:
        async with sender:
            await app(scope, receive, sender.send)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": "/api/events",
        "raw_path": b"/api/events",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "scheme": "http",
    }
    async with receiver, anyio.create_task_group() as group:
        group.start_soon(run)
        yield Stream(receiver)
        gone.set()
        async for _ in receiver:
            pass
