"""At most once: a task that is never started twice, whatever happens to its worker."""

import asyncio
from datetime import timedelta

from gotasks_memstore import MemStore
from gotasks_py import Hooks, JanitorConfig, Manager, QueuePolicy, TaskFailedError, TaskPolicy

ONCE = TaskPolicy(max_attempts=1)


async def main() -> None:
    """Fail once, and be interrupted once: neither is tried again."""
    store, started = MemStore(), list[str]()
    interrupted = asyncio.Event()
    manager = Manager(
        store,
        queues=[QueuePolicy("payments")],
        # Ends tasks whose worker died during the only attempt that they had.
        janitor=JanitorConfig(reap_interval=timedelta(seconds=1)),
        hooks=Hooks(on_dead=lambda event: print(f"dead: {event.error or 'interrupted'}")),
    )

    @manager.handler("payments", "charge")
    async def charge(customer: str) -> None:
        started.append(customer)
        print(f"charging {customer}")
        if customer == "ann":
            raise ConnectionError("did the bank charge her or not?")
        interrupted.set()
        await asyncio.sleep(60)

    async with manager:
        ann = await charge.enqueue("ann", ONCE)
        try:
            await ann.result(timeout=5)
        except TaskFailedError as error:
            print(f"ann: {error.errors[0].kind}, no retry: somebody has to look")
        bob = await charge.enqueue("bob", ONCE)
        await interrupted.wait()
        # A shutdown hands other unfinished tasks back; this one has started, so it is dead.
        await manager.stop(timeout=0.1)

    task = await bob.task()
    print(f"bob: {task.status}, {task.errors[0].kind}")
    print(f"started: {started}")


if __name__ == "__main__":
    asyncio.run(main())
