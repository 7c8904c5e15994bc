"""Starting a task that belongs to nobody: the root of a running manager.

A task group entered in ``start()`` would put a cancel scope into the caller's task, and
would have to be left in that very task. Users start and stop managers from different
tasks (fixtures, ``wait_for``, web lifespans), so the root must be a task of its own.
anyio has no such thing; this is the one place that knows the two event loops apart.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from anyio.lowlevel import current_token

_references: set[object] = set()


class _AsyncioLoop(Protocol):
    def create_task(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> _AsyncioTask: ...


class _AsyncioTask(Protocol):
    def add_done_callback(self, callback: Callable[[object], None], /) -> object: ...


def spawn_detached(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run a function as a task of its own on the current event loop."""
    token = current_token()
    if "trio" in token.backend_class.__module__:
        import trio  # noqa: PLC0415  - there only where the program runs on it

        trio.lowlevel.spawn_system_task(function, name=name)
        return
    # The native token of asyncio's backend is the running event loop.
    loop = cast("_AsyncioLoop", token.native_token)
    task = loop.create_task(function(), name=name)
    # The event loop keeps weak references only.
    _references.add(task)
    task.add_done_callback(_references.discard)
