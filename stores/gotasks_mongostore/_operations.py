"""How the store asks the server: for a bounded time, with errors that say what was asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import pymongo

from gotasks_mongostore._driver import Collections, Connection
from gotasks_mongostore._elections import PrimaryReplacedError
from gotasks_mongostore._failures import translated
from gotasks_py.patience import at_most
from gotasks_py.task import TaskId

T = TypeVar("T")


class Operations:
    """Hands out the collections for one operation at a time.

    ``timeout`` bounds each, the driver's retries included.
    """

    def __init__(self, connection: Connection, timeout: timedelta) -> None:
        self._connection = connection
        self.seconds = timeout.total_seconds()

    @contextmanager
    def bounded(self, action: str, *, task_id: TaskId | None = None) -> Generator[Collections]:
        """Bound an operation."""
        with translated(action, task_id=task_id), pymongo.timeout(at_most(self.seconds)):
            yield self._connection.collections()

    @contextmanager
    def retried(self, action: str) -> Generator[Collections]:
        """Bound one of workers, who try again: better early than when its time is up."""
        with self.bounded(action) as here, here.elections.followed():
            yield here

    async def repeatable(
        self,
        action: str,
        ask: Callable[[Collections], Awaitable[T]],
        *,
        task_id: TaskId | None = None,
        only_once: bool = False,
    ) -> T:
        """Do what may be done twice: once more, where the primary that has it was replaced.

        ``only_once``: this time it may not, and waits for that primary.
        """
        with self.bounded(action, task_id=task_id) as here:
            if only_once:
                return await ask(here)
            try:
                with here.elections.followed():
                    return await ask(here)
            except PrimaryReplacedError:
                return await ask(here)
