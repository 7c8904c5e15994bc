"""Cancelling the driver's operations, at any moment and once.

On Python 3.11 ``asyncio.wait_for`` runs what it waits for as a task of its own. When that is
given up, cancelled or out of time, ``wait_for`` waits for the task's end, and a cancellation
meanwhile lets it leave before. PyMongo (seen with 4.20) waits that way for a server, under the
lock of its topology, and for a connection, under that of its pool. Who leaves before lets go of a
lock that is another's by then, and what it leaves behind takes the lock for good: operations of
the client fail with "Lock is not acquired", or hang. Handlers that share the client do that as
well as the store, so PyMongo's wait itself is replaced, for the whole process.

anyio cancels again and again until its scope is left, and what the driver does on its way out
is not to be cancelled in turn: :class:`Once` tells an operation of one cancellation.

Since 3.12 ``asyncio.wait_for`` starts no task of its own, and there is nothing to do.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Generic, ParamSpec, TypeVar

from pymongo.asynchronous import pool, topology

_IS_NEEDED: Final = sys.version_info < (3, 12)
# Far longer than a lock takes to be passed on. ``wait_for`` can also miss a cancellation, when
# what it waits for comes at that moment; then the next one has to be heard.
_UNWINDING_SECONDS: Final = 0.5
# The most that one turn of the event loop counts: a machine that stands still passes nothing on.
_TURN_SECONDS: Final = 0.025


async def _wait(condition: asyncio.Condition, timeout: float | None) -> bool:  # noqa: ASYNC109  - as PyMongo calls it
    """Wait for a condition, and have its lock again at the end, however that comes."""
    try:
        async with asyncio.timeout(timeout):
            return await condition.wait()
    except TimeoutError:
        return False


if _IS_NEEDED:
    for _module in (pool, topology):
        _module._async_cond_wait = _wait  # type: ignore[attr-defined]  # noqa: SLF001

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)


def cancelled_once(store: C) -> C:
    """Let all public operations of a class be cancelled as :class:`Once` is."""
    if not _IS_NEEDED:
        return store
    for name, operation in inspect.getmembers(store, inspect.isfunction):
        if name.startswith("_"):
            continue
        if inspect.iscoroutinefunction(operation):
            setattr(store, name, _operation(operation))
        elif inspect.isasyncgenfunction(operation):
            setattr(store, name, _iteration(operation))
    return store


@dataclass(frozen=True, slots=True)
class Once(Generic[T]):
    """An operation that hears of a cancellation, and of a further one only if it goes on."""

    operation: Awaitable[T]

    def __await__(self) -> Generator[Any, None, T]:
        steps = self.operation.__await__()
        try:
            waits_for = next(steps)
            while True:
                try:
                    yield waits_for
                except asyncio.CancelledError as cancellation:
                    waits_for = steps.throw(cancellation)
                    patience = _Patience(asyncio.get_running_loop())
                    while (yield from _came(waits_for, patience)):
                        waits_for = next(steps)
                except BaseException as error:  # noqa: BLE001  - as it would be without this class
                    waits_for = steps.throw(error)
                else:
                    waits_for = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class _Patience:
    """How long an operation may go on that has heard of its cancellation."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time = loop.time
        self._looked_at = loop.time()
        self._left = _UNWINDING_SECONDS

    def lasts(self) -> bool:
        """Count the turn of the event loop that is over."""
        now = self._time()
        self._left -= min(now - self._looked_at, _TURN_SECONDS)
        self._looked_at = now
        return self._left > 0


def _came(
    waits_for: asyncio.Future[object] | None, patience: _Patience
) -> Generator[Any, None, bool]:
    """Wait as a coroutine asked its event loop to, whatever is cancelled meanwhile."""
    if waits_for is None:
        with suppress(asyncio.CancelledError):
            yield
        return patience.lasts()
    while not waits_for.done() and patience.lasts():
        with suppress(asyncio.CancelledError):
            yield from asyncio.wait([waits_for], timeout=_TURN_SECONDS).__await__()
    return waits_for.done()


def _operation(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Awaitable[T]]:
    @wraps(method)
    async def once(*args: P.args, **kwargs: P.kwargs) -> T:
        return await Once(method(*args, **kwargs))

    return once


def _iteration(method: Callable[P, AsyncIterator[T]]) -> Callable[P, AsyncIterator[T]]:
    @wraps(method)
    async def once(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        steps = method(*args, **kwargs)
        try:
            while True:
                yield await Once(anext(steps))
        except StopAsyncIteration:
            return
        finally:
            await Once(steps.aclose())  # type: ignore[attr-defined]  # an async generator's

    return once
