"""What happens to a task that fails: backoff, retries, dead letters, and bringing them back."""

import asyncio
import logging
from datetime import timedelta

from gotasks_memstore import MemStore
from gotasks_py import (
    Exponential,
    Manager,
    QueuePolicy,
    Reject,
    Retry,
    Snooze,
    TaskContext,
    TaskFailedError,
)

# 100 ms, 200 ms, 400 ms, ... with no random part, so that the example always prints the same.
BACKOFF = Exponential(base=timedelta(milliseconds=100), jitter=0)
SOON = timedelta(milliseconds=50)
QUEUES = [QueuePolicy("calls", max_attempts=3, backoff=BACKOFF)]

manager = Manager(MemStore(), queues=QUEUES)
open_shops: set[str] = set()
awake: set[str] = set()


@manager.handler("calls", "busy")
async def call_busy(ctx: TaskContext, number: str) -> str:
    """Raise: any exception is a failed attempt."""
    if ctx.attempt < 3:
        raise ConnectionError("the line is busy")
    return f"talked to {number} in attempt {ctx.attempt}"


@manager.handler("calls", "voicemail")
async def call_voicemail(ctx: TaskContext, number: str) -> str:
    """Raise Retry: a failed attempt with a delay of its own."""
    if ctx.attempt < 2:
        raise Retry("nobody there", delay=SOON)
    return f"talked to {number} in attempt {ctx.attempt}"


@manager.handler("calls", "asleep")
async def call_asleep(ctx: TaskContext, number: str) -> str:
    """Raise Snooze: later, and this attempt does not count."""
    if number not in awake:
        awake.add(number)
        raise Snooze(SOON)
    return f"talked to {number} in attempt {ctx.attempt}"


@manager.handler("calls", "wrong")
async def call_wrong(number: str) -> None:
    """Raise Reject: dead at once, whatever attempts are left."""
    raise Reject(f"no such number: {number}")


@manager.handler("calls", "malformed", give_up_on=[ValueError])
async def call_malformed(number: str) -> int:
    """Raise what the handler gives up on: dead at once too."""
    return int(number)


@manager.handler("calls", "shop")
async def call_shop(name: str) -> str:
    """Fail as often as there are attempts: a dead letter."""
    if name not in open_shops:
        raise ConnectionError("the shop is closed")
    return f"talked to {name}"


async def main() -> None:
    """Fail in every way there is, then bring a dead letter back."""
    logging.getLogger("gotasks_py").setLevel(logging.CRITICAL)  # it would log each failure
    async with manager:
        for kind in ("busy", "voicemail", "asleep", "wrong", "malformed", "shop"):
            handle = await manager.enqueue("calls", kind, kind)
            try:
                print(f"{kind}: {await handle.result(timeout=10)}")
            except TaskFailedError as error:
                print(f"{kind}: dead after {len(error.errors)} failed: {error.errors[-1].message}")

        open_shops.add("shop")
        report = await manager.requeue_dead("calls", "shop")  # requeue(id) brings back one
        again = await manager.handle(report.requeued[0])
        print(f"requeued: {await again.result(timeout=10)}")
        print(f"its history stays: {len((await again.task()).errors)} failed attempts")


if __name__ == "__main__":
    asyncio.run(main())
