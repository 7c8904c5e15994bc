"""Stopping a program on SIGINT and SIGTERM, and leaving its signal handlers as they were."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final

import anyio

logger = logging.getLogger("gotasks_py.manager")

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


async def stop_on_signals(
    stop: Callable[[], Coroutine[Any, Any, None]], interrupt: Callable[[], None]
) -> None:
    """Stop at the first signal, interrupt at every further one. For the main thread only."""
    with _handlers_restored(), anyio.open_signal_receiver(*_NUMBERS) as signals:
        async with anyio.create_task_group() as group:
            await _listen(signals, group, stop, interrupt)


async def _listen(
    signals: AsyncIterator[signal.Signals],
    group: anyio.abc.TaskGroup,
    stop: Callable[[], Coroutine[Any, Any, None]],
    interrupt: Callable[[], None],
) -> None:
    is_stopping = False
    async for number in signals:
        logger.info("got %s, %s", number.name, "stopping at once" if is_stopping else "stopping")
        if is_stopping:
            interrupt()
        else:
            group.start_soon(stop)
        is_stopping = True


@contextmanager
def _handlers_restored() -> Generator[None]:
    """Put the program's handlers back: the event loop forgets them when it lets go."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
