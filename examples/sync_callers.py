"""Enqueue from code that is not async: a script, a Django or Flask view, a thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pydantic import BaseModel

from gotasks_mongostore import MongoStore
from gotasks_py import Manager, QueuePolicy, TaskType
from throwaway import throwaway_database


class Order(BaseModel):
    """What was ordered."""

    number: int


# Shared by those who enqueue and those who work; it needs none of the handlers' code.
SHIP = TaskType("orders", "ship", Order, str)
QUEUES = [QueuePolicy("orders")]


def view(manager: Manager, number: int) -> str:
    """Do what a Django or Flask view would do, in whatever thread it is called."""
    handle = manager.sync.enqueue(SHIP, Order(number=number))
    return handle.result(timeout=20)


async def work(uri: str, database: str, expected: int) -> None:
    """Be the worker; elsewhere this is a process of its own that calls ``manager.run()``."""
    store = await MongoStore.connect(uri, database=database)
    manager = Manager(store, queues=QUEUES)
    shipped = asyncio.Semaphore(0)

    @manager.handler(SHIP)
    async def ship(order: Order) -> str:
        shipped.release()
        return f"shipped order {order.number}"

    async with manager:
        for _ in range(expected):
            await shipped.acquire()
    await store.aclose()


def main() -> None:
    """Call the view from several threads while a worker runs."""
    with throwaway_database() as (uri, database), ThreadPoolExecutor() as threads:
        worker = threads.submit(asyncio.run, work(uri, database, expected=3))
        # Not started: it only enqueues. The store connects at its first use.
        manager = Manager(MongoStore(uri, database=database), queues=QUEUES)
        for answer in threads.map(partial(view, manager), (1, 2, 3)):
            print(answer)
        worker.result()
        manager.sync.close()


if __name__ == "__main__":
    main()
