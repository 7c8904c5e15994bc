"""What each part of the store may count on from the whole."""

from __future__ import annotations

from gotasks_mongostore._driver import Connection
from gotasks_mongostore._low_water import LowWater
from gotasks_mongostore._operations import Operations
from gotasks_py.clock import Clock


class Part:
    """A base of :class:`MongoStore`, which provides these."""

    _connection: Connection
    _operations: Operations
    _low_water: LowWater

    @property
    def clock(self) -> Clock:
        raise NotImplementedError

    async def open(self) -> None:
        raise NotImplementedError

    async def reach(self) -> None:
        raise NotImplementedError
