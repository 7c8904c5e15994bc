"""Letting the driver's operations be cancelled at any moment.

On Python 3.11 ``asyncio.wait_for`` runs what it waits for as a task of its own. When that is
given up, cancelled or out of time, ``wait_for`` waits for the task's end, and a cancellation
meanwhile lets it leave before. PyMongo (seen with 4.20) waits that way for a server, under the
lock of its topology, and for a connection, under that of its pool. Who leaves before lets go of a
lock that is another's by then, and what it leaves behind takes the lock for good: operations of
the client fail with "Lock is not acquired", or hang. anyio, which cancels again and again until
its scope is left, brings that about in any outage; and handlers that share the client do as well
as the store. So PyMongo's wait itself is replaced, for the whole process.

Since 3.12 ``asyncio.wait_for`` starts no task of its own, and there is nothing to do.
"""

from __future__ import annotations

import asyncio
import sys

from pymongo.asynchronous import pool, topology


def bear_cancellations() -> None:
    """Have PyMongo wait so that who leaves has its lock."""
    if sys.version_info < (3, 12):
        for module in (pool, topology):
            module._async_cond_wait = _cond_wait  # type: ignore[attr-defined]  # noqa: SLF001


async def _cond_wait(condition: asyncio.Condition, timeout: float | None) -> bool:  # noqa: ASYNC109  - as PyMongo calls it
    try:
        async with asyncio.timeout(timeout):
            return await condition.wait()
    except TimeoutError:
        return False
