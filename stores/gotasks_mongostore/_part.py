"""What each part of the store may count on from the whole."""

from __future__ import annotations

from contextlib import AbstractContextManager

from gotasks_mongostore._driver import Collections
from gotasks_py.clock import Clock
from gotasks_py.task import TaskId


class Part:
    """A base of :class:`MongoStore`, which provides these."""

    @property
    def clock(self) -> Clock:
        raise NotImplementedError

    async def open(self) -> None:
        raise NotImplementedError

    async def reach(self) -> None:
        raise NotImplementedError

    def _operation(
        self, action: str, *, task_id: TaskId | None = None
    ) -> AbstractContextManager[Collections]:
        raise NotImplementedError
