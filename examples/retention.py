"""How long tasks are kept: a queue's ttl counts from when a task was to run."""

import asyncio
from datetime import timedelta

from gotasks_memstore import MemStore
from gotasks_py import Manager, QueueConflictError, QueuePolicy, TaskNotFoundError

SESSIONS = QueuePolicy("sessions", ttl=timedelta(seconds=1.5))
AUDIT = QueuePolicy("audit")  # kept for ever: delete them yourself


async def main() -> None:
    """Let a task's lifetime pass, and change a recorded lifetime on purpose."""
    store = MemStore()
    manager = Manager(store, queues=[SESSIONS, AUDIT])

    @manager.handler("sessions", "close")
    async def close(user: str) -> str:
        return f"closed the session of {user}"

    async with manager:
        kept = await manager.enqueue("audit", "login", "ann")
        handle = await close.enqueue("ann")
        print(await handle.result(timeout=5))
        task = await handle.task()
        assert task.expires_at is not None
        print(f"kept for {(task.expires_at - task.run_at).total_seconds()} s")
        await asyncio.sleep(1.6)  # MongoDB purges within about a minute, memory at once
        try:
            await handle.task()
        except TaskNotFoundError as error:
            print(error)
        await manager.delete(kept.id)
        print("deleted the one that had no ttl")

    # The first declaration is recorded; another one is refused, with both values.
    longer = Manager(store, queues=[QueuePolicy("sessions", ttl=timedelta(days=7))])
    try:
        await longer.enqueue("sessions", "close", "bob")
    except QueueConflictError as error:
        print(error.differences)
    await store.set_queue_policy(QueuePolicy("sessions", ttl=timedelta(days=7)))
    stored = await (await longer.enqueue("sessions", "close", "bob")).task()
    assert stored.expires_at is not None
    print(f"kept for {(stored.expires_at - stored.run_at).days} days")


if __name__ == "__main__":
    asyncio.run(main())
