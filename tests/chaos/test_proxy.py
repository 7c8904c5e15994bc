"""The proxy spoils lines the way that it says."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from gotasks_chaos.proxy import Line, Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

QUIET = 0.1
"""Seconds without an answer after which none is on its way; an answer takes well below 1 ms."""


class Echo:
    """A server that sends back what it gets, and keeps it."""

    def __init__(self) -> None:
        self.received = b""
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Echo]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve)
            yield self
            group.cancel_scope.cancel()

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            try:
                async for chunk in stream:
                    self.received += chunk
                    await stream.send(chunk)
            except anyio.BrokenResourceError:
                pass


@asynccontextmanager
async def a_line() -> AsyncGenerator[tuple[Echo, Proxy]]:
    async with Echo().serving() as echo, Proxy("127.0.0.1", echo.port).serving() as proxy:
        with anyio.fail_after(10):
            yield echo, proxy


async def dial(proxy: Proxy) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", proxy.port)


async def said(stream: SocketStream, words: bytes) -> bytes:
    """Say something; tell the whole answer."""
    await stream.send(words)
    answer = b""
    while len(answer) < len(words):
        answer += await stream.receive()
    return answer


async def is_silent(stream: SocketStream) -> bool:
    with anyio.move_on_after(QUIET):
        await stream.receive()
        return False
    return True


async def is_reset(stream: SocketStream) -> bool:
    try:
        await stream.receive()
    except anyio.BrokenResourceError:
        return True
    return False


async def eventually(what: object, expected: object) -> None:
    assert callable(what)
    while what() != expected:
        await anyio.sleep(0.001)


async def test_a_sound_line_carries_everything_both_ways() -> None:
    async with a_line() as (_, proxy), await dial(proxy) as one, await dial(proxy) as other:
        long = bytes(range(256)) * 4_000
        assert await said(one, long) == long
        assert await said(other, b"b") == b"b"
        assert proxy.connections == 2
        await one.aclose()
        await eventually(lambda: proxy.connections, 1)


async def test_a_slow_line_is_late_in_both_directions() -> None:
    async with a_line() as (_, proxy), await dial(proxy) as stream:
        proxy.set_line(Line.SLOW, delay=0.05)
        began = time.monotonic()
        assert await said(stream, b"a") == b"a"
        assert time.monotonic() - began >= 0.1

        proxy.set_line(Line.SOUND)
        assert await said(stream, b"b") == b"b"


async def test_a_swallowing_line_keeps_connections_and_carries_nothing() -> None:
    async with a_line() as (echo, proxy), await dial(proxy) as stream:
        assert await said(stream, b"a") == b"a"
        proxy.set_line(Line.SWALLOWING)
        await stream.send(b"b")

        assert await is_silent(stream)
        assert echo.received == b"a"
        async with await dial(proxy) as later:
            await later.send(b"c")
            assert await is_silent(later)


async def test_a_deaf_line_carries_requests_and_no_answers() -> None:
    async with a_line() as (echo, proxy), await dial(proxy) as stream:
        proxy.set_line(Line.DEAF)
        await stream.send(b"a")

        await eventually(lambda: echo.received, b"a")
        assert await is_silent(stream)


async def test_a_late_line_delivers_what_its_sender_has_given_up() -> None:
    async with (
        a_line() as (echo, proxy),
        await dial(proxy) as hasty,
        await dial(proxy) as patient,
    ):
        assert await said(hasty, b"a") == b"a"
        proxy.set_line(Line.LATE)
        await hasty.send(b"b")
        await patient.send(b"c")
        assert await is_silent(hasty)
        await hasty.aclose()
        assert await is_silent(patient)
        assert echo.received == b"a"

        proxy.set_line(Line.SOUND)
        assert await patient.receive() == b"c"
        await eventually(lambda: sorted(echo.received), sorted(b"abc"))


@pytest.mark.parametrize("line", [Line.SWALLOWING, Line.DEAF])
async def test_a_connection_that_lost_something_is_reset_when_the_line_is_mended(
    line: Line,
) -> None:
    async with a_line() as (_, proxy), await dial(proxy) as hurt, await dial(proxy) as idle:
        assert await said(idle, b"a") == b"a"
        proxy.set_line(line)
        await hurt.send(b"b")
        assert await is_silent(hurt)
        proxy.set_line(Line.SOUND)

        assert await is_reset(hurt)
        assert await said(idle, b"c") == b"c"


async def test_a_cut_line_resets_connections_old_and_new() -> None:
    async with a_line() as (_, proxy), await dial(proxy) as old:
        assert await said(old, b"a") == b"a"
        proxy.set_line(Line.CUT)
        assert await is_reset(old)
        async with await dial(proxy) as new:
            assert await is_reset(new)

        proxy.set_line(Line.SOUND)
        async with await dial(proxy) as later:
            assert await said(later, b"b") == b"b"


async def test_a_target_that_is_not_there_ends_the_connection() -> None:
    async with a_line() as (echo, _), Proxy("127.0.0.1", echo.port).serving() as proxy:
        pass
    async with Proxy("127.0.0.1", echo.port).serving() as proxy, await dial(proxy) as stream:
        with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
