"""Several queues in one manager: shares of a common pool, and a pool of one's own."""

import asyncio
from collections import Counter

from gotasks_memstore import MemStore
from gotasks_py import Enqueue, Manager, QueuePolicy, TaskContext, TaskPolicy

QUEUES = [
    QueuePolicy("orders", weight=3),  # three claims of four, while both have work
    QueuePolicy("newsletters"),  # never starved
    QueuePolicy("videos", workers=1),  # one at a time, and takes no slot from the others
]


async def main() -> None:
    """Fill all queues, then start working."""
    manager = Manager(MemStore(), queues=QUEUES, workers=2)
    served: list[tuple[str, str]] = []

    async def serve(ctx: TaskContext, what: str) -> None:
        served.append((ctx.task.queue, what))
        await asyncio.sleep(0.005)

    for queue in QUEUES:
        manager.handler(queue.name, "serve")(serve)
    handles = await manager.enqueue_many(
        Enqueue(queue.name, "serve", f"number {n}") for queue in QUEUES for n in range(40)
    )
    handles.append(await manager.enqueue("newsletters", "serve", "urgent", TaskPolicy(priority=10)))

    async with manager:
        for handle in handles:
            await handle.result(timeout=10)

    shared = [(queue, what) for queue, what in served if queue != "videos"]
    shares = Counter(queue for queue, _ in shared[:40])
    print(f"the first 40 claims of the shared pool: {dict(shares)}")
    newsletters = [what for queue, what in shared if queue == "newsletters"]
    print(f"the first newsletter: {newsletters[0]}, though it was enqueued last")
    print(f"videos, one at a time: {[what for queue, what in served if queue == 'videos'][:3]}")


if __name__ == "__main__":
    asyncio.run(main())
