"""A worker process of the demo: ``python demo_worker.py NAME DATABASE``.

It serves every type of task in the shop until SIGTERM, and tells what it does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from datetime import timedelta
from typing import Any

from pymongo import AsyncMongoClient

from demo_shop import (
    CATALOGUE,
    CHARGE,
    INVOICE,
    REMIND,
    REPORT,
    SHOP,
    THUMBNAIL,
    WELCOME,
    Catalogue,
    Letter,
    Payment,
    Picture,
    Receipt,
    Thumbnail,
    label,
    tell,
    worker_of,
)
from gotasks_mongostore import MongoStore
from gotasks_py import Hooks, Manager, TaskContext, TaskEvent

LEASE = timedelta(seconds=2)
POLL = timedelta(milliseconds=200)
SECONDS_PER_PAGE = 0.25


async def work(name: str, uri: str, database: str) -> None:
    """Serve the shop until a signal says stop."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    manager = Manager(
        MongoStore(client, database=database),
        queues=[SHOP],
        workers=4,
        lease=LEASE,
        fallback_poll=POLL,
        name=name,
        hooks=account_of(name),
    )
    register(manager, client[database]["supplies"])
    await manager.run()
    await client.close()


def register(manager: Manager, supplies: Any) -> None:  # noqa: C901  - one function per type
    """Register a handler for each type of task."""

    @manager.handler(WELCOME)
    async def welcome(letter: Letter) -> Receipt:
        return Receipt(reference=f"welcome {letter.to}")

    @manager.handler(REMIND)
    async def remind(letter: Letter) -> Receipt:
        return Receipt(reference=f"reminded {letter.to}")

    @manager.handler(REPORT)
    async def report(month: str) -> Receipt:
        return Receipt(reference=f"report of {month}")

    @manager.handler(CHARGE)
    def charge(ctx: TaskContext, payment: Payment) -> Receipt:  # not async: runs in a thread
        if ctx.attempt < 3:
            raise ConnectionError("the bank hung up")
        return Receipt(reference=f"order {payment.order}: {payment.cents} cents")

    @manager.handler(THUMBNAIL)
    async def thumbnail(ctx: TaskContext, picture: Picture) -> Thumbnail:
        await asyncio.sleep(0.05)
        return Thumbnail(name=picture.name, worker=worker_of(ctx.lease.owner))

    @manager.handler(INVOICE)
    async def invoice(payment: Payment) -> Receipt:
        some_paper = {"_id": "paper", "sheets": {"$gt": 0}}
        taken = await supplies.update_one(some_paper, {"$inc": {"sheets": -1}})
        if not taken.modified_count:
            raise RuntimeError("the printer has no paper")
        return Receipt(reference=f"invoice of order {payment.order}")

    @manager.handler(CATALOGUE)
    async def catalogue(ctx: TaskContext, job: Catalogue) -> Receipt:
        # After a crash, go on where the worker that died was.
        printed = ctx.task.progress if isinstance(ctx.task.progress, int) else 0
        for page in range(printed + 1, job.pages + 1):
            await asyncio.sleep(SECONDS_PER_PAGE)
            await ctx.progress(page)
        return Receipt(reference=f"pages {printed + 1} to {job.pages}")


def account_of(name: str) -> Hooks:
    """Tell what this worker does, except for the many thumbnails."""

    def say(event: TaskEvent, what: str, details: str) -> None:
        if event.task.type != THUMBNAIL.name:
            tell(name, what, label(event.task), details)

    def claimed(event: TaskEvent) -> None:
        task = event.task
        last = task.errors[-1] if task.errors else None
        if last is not None and last.kind == "lease_expired":
            say(event, "recovered", f"attempt {task.attempts}: {last.message}")
        else:
            say(event, "claimed", f"attempt {task.attempts} of {task.max_attempts}")

    def failed(event: TaskEvent) -> None:
        seconds = event.delay.total_seconds() if event.delay else 0
        say(event, "failed", f"{event.error}; next attempt in {seconds:.1f} s")

    return Hooks(
        on_claim=claimed,
        before_retry=failed,
        on_done=lambda event: say(event, "settled", "done"),
        on_dead=lambda event: say(event, "settled", f"dead: {event.error}"),
    )


def leave_with_parent() -> None:
    """End this process when the demo is gone, however it went: its end of stdin closes."""

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        # Not gracefully: the database has gone with the demo.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    leave_with_parent()
    # The account tells of failed attempts already.
    logging.getLogger("gotasks_py.attempt").setLevel(logging.CRITICAL)
    asyncio.run(work(sys.argv[1], os.environ["GOTASKS_MONGODB_URI"], sys.argv[2]))
