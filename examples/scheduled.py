"""Tasks for later: after a delay, or at a moment; and taking one back before it runs."""

import asyncio
from datetime import UTC, datetime, timedelta

from gotasks_memstore import MemStore
from gotasks_py import Manager, QueuePolicy, TaskCancelledError, TaskPolicy


async def main() -> None:
    """Enqueue for later in three ways; the manager wakes up when each is due."""
    manager = Manager(MemStore(), queues=[QueuePolicy("reminders")])
    began = datetime.now(UTC)

    @manager.handler("reminders", "ring")
    async def ring(text: str) -> float:
        after = (datetime.now(UTC) - began).total_seconds()
        print(f"{after:.1f} s: {text}")
        return after

    async with manager:
        delayed = await ring.enqueue("tea is ready", TaskPolicy(delay=timedelta(seconds=1)))
        # A moment must have a time zone; one without is refused.
        moment = datetime.now(UTC) + timedelta(seconds=0.5)
        timed = await ring.enqueue("half time", TaskPolicy(run_at=moment))
        unwanted = await ring.enqueue("next year", TaskPolicy(delay=timedelta(days=365)))

        task = await unwanted.task()
        print(f"{task.status} until {task.run_at:%Y}, and cancelled:")
        await manager.cancel(unwanted.id)

        first, second = await timed.result(timeout=5), await delayed.result(timeout=5)
        print(f"in time, and in order: {0.5 <= first < second}")
        try:
            await unwanted.result(timeout=5)
        except TaskCancelledError as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())
