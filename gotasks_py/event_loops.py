"""What anyio has no word for, on asyncio and on trio: the one place that knows them apart.

Starting a task that belongs to nobody, as the root of a running manager must be: a task
group entered in ``start()`` would put a cancel scope into the caller's task, and would have
to be left in that very task, but users start and stop managers from different tasks
(fixtures, ``wait_for``, web lifespans). And waking an event loop from another thread
without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, cast

from anyio.lowlevel import EventLoopToken, current_token

_references: set[object] = set()


class _AsyncioLoop(Protocol):
    def create_task(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> _AsyncioTask: ...
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object: ...


class _AsyncioTask(Protocol):
    def add_done_callback(self, callback: Callable[[object], None], /) -> object: ...


class _TrioToken(Protocol):
    def run_sync_soon(self, callback: Callable[[], object]) -> None: ...


def spawn_detached(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run a function as a task of its own on the current event loop."""
    token = current_token()
    if _is_trio(token):
        import trio  # noqa: PLC0415  - there only where the program runs on it

        trio.lowlevel.spawn_system_task(function, name=name)
        return
    # The native token of asyncio's backend is the running event loop.
    loop = cast("_AsyncioLoop", token.native_token)
    task = loop.create_task(function(), name=name)
    # The event loop keeps weak references only.
    _references.add(task)
    task.add_done_callback(_references.discard)


def call_soon(token: EventLoopToken, callback: Callable[[], object]) -> None:
    """Call a function on an event loop, from any thread, without waiting for it.

    On an event loop that has ended, nothing happens.
    """
    # Of asyncio and of trio alike.
    with suppress(RuntimeError):
        if _is_trio(token):
            cast("_TrioToken", token.native_token).run_sync_soon(callback)
        else:
            cast("_AsyncioLoop", token.native_token).call_soon_threadsafe(callback)


def _is_trio(token: EventLoopToken) -> bool:
    return "trio" in token.backend_class.__module__
