"""A task far longer than its lease: the heartbeat keeps it, even if it blocks the loop."""

import asyncio
import logging
import time
from datetime import timedelta

from gotasks_py import Manager, QueuePolicy, TaskContext
from throwaway import throwaway_store

LEASE = timedelta(seconds=1)


async def main() -> None:
    """Run two tasks of 2.5 s under a lease of 1 s, and see that none is taken over."""
    async with throwaway_store() as store:
        # Two managers share the store: the other one would take over a lapsed lease.
        managers = [
            Manager(store, queues=[QueuePolicy("films")], lease=LEASE, name=name)
            for name in ("anna", "ben")
        ]
        for manager in managers:

            @manager.handler("films", "encode")
            async def encode(ctx: TaskContext, film: str) -> str:
                for percent in range(0, 100, 20):
                    await ctx.progress(percent)
                    await asyncio.sleep(0.5)
                still_mine = await ctx.still_mine()
                return f"{film}: attempt {ctx.attempt}, still mine: {still_mine}"

            @manager.handler("films", "block")
            async def block(ctx: TaskContext, film: str) -> str:
                time.sleep(2.5)  # noqa: ASYNC251  - what a handler should not do
                return f"{film}: attempt {ctx.attempt}"

        # Says which handler blocks the event loop; make it a plain function instead.
        logging.basicConfig(format="%(name)s: %(message)s")
        async with managers[0], managers[1]:
            for name in ("encode", "block"):
                handle = await managers[0].enqueue("films", name, "metropolis")
                print(f"{name} {await handle.result(timeout=20)}")


if __name__ == "__main__":
    asyncio.run(main())
