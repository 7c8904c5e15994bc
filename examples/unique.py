"""Unique tasks: at most one active task holds a key."""

import asyncio
from datetime import timedelta

from gotasks_memstore import MemStore
from gotasks_py import DuplicateTaskError, Manager, QueuePolicy, TaskPolicy


async def main() -> None:
    """Ask for the same report several times."""
    manager = Manager(MemStore(), queues=[QueuePolicy("reports")])

    @manager.handler("reports", "build")
    async def build(month: str) -> str:
        print(f"building the report of {month}")
        return f"report of {month}"

    once = TaskPolicy(unique_key="2026-11", delay=timedelta(milliseconds=500))
    async with manager:
        first = await build.enqueue("2026-11", once)
        try:
            await build.enqueue("2026-11", once)
        except DuplicateTaskError as error:
            print(f"refused: the same task exists: {error.existing_id == first.id}")

        joined = await build.enqueue("2026-11", once, on_conflict="return")
        print(f"joined the existing task: {joined.id == first.id}")

        other = await build.enqueue("2026-12", TaskPolicy(unique_key="2026-12"))
        print(await other.result(timeout=5))
        print(await joined.result(timeout=5))

        # The key is free again when its task is done, dead or cancelled.
        again = await build.enqueue("2026-11", once)
        print(f"a new task: {again.id != first.id}, {await again.result(timeout=5)}")


if __name__ == "__main__":
    asyncio.run(main())
