"""Stopping a program on signals, and leaving its signal handlers as they were."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import anyio

logger = logging.getLogger("gotasks_py.manager")

_ALWAYS: Final = (signal.SIGINT, signal.SIGTERM)

Received: TypeAlias = AsyncIterator[signal.Signals]


def stop_signals() -> Sequence[signal.Signals]:
    """Tell which signals stop a program: SIGINT, SIGTERM, and SIGHUP where that would end it.

    A terminal that is closed sends SIGHUP. Who ignores it, as under ``nohup``, or has a
    handler of its own for it, keeps that. Some platforms have none.
    """
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is not signal.SIG_DFL:
        return _ALWAYS
    return (*_ALWAYS, hangup)


@contextmanager
def signals_taken() -> Generator[Received | None]:
    """Take the signals, instead of the program's handlers; ``None``: not the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    numbers = stop_signals()
    with _handlers_restored(numbers), anyio.open_signal_receiver(*numbers) as signals:
        yield signals


async def unless_signalled(signals: Received, start: Callable[[], Awaitable[None]]) -> bool:
    """Start, or give up when a signal comes; tell whether it has started.

    Raises:
        Exception: what the start raises.
    """
    failure: Exception | None = None
    has_started = False

    async def run() -> None:
        nonlocal failure, has_started
        try:
            await start()
            has_started = True
        except Exception as error:  # noqa: BLE001  - raised below, outside the group
            failure = error
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        async for number in signals:
            logger.info("got %s while starting, giving up", number.name)
            break
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return has_started


async def stop_on_signals(
    signals: Received,
    stop: Callable[[], Coroutine[Any, Any, None]],
    interrupt: Callable[[], None],
) -> None:
    """Stop at the first signal, interrupt at every further one."""
    async with anyio.create_task_group() as group:
        is_stopping = False
        async for number in signals:
            logger.info(
                "got %s, %s", number.name, "stopping at once" if is_stopping else "stopping"
            )
            if is_stopping:
                interrupt()
            else:
                group.start_soon(stop)
            is_stopping = True


@contextmanager
def _handlers_restored(numbers: Sequence[signal.Signals]) -> Generator[None]:
    """Put the program's handlers back: the event loop forgets them when it lets go."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
