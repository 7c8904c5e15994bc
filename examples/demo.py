"""The demo: a small shop whose tasks fail, wait, and survive the death of a worker.

``make demo`` or ``python examples/demo.py``. It works on the servers of
``GOTASKS_MONGODB_URI``, or on a throw-away replica set of its own, starts two worker
processes (``demo_worker.py``), gives them work, kills one of them in the middle of a task,
and checks that everything ended as it should. It leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

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
    label,
    tell,
    worker_of,
)
from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import mongodb_uri
from gotasks_py import (
    DuplicateTaskError,
    Enqueue,
    GotasksError,
    Manager,
    Status,
    Task,
    TaskFailedError,
    TaskHandle,
    TaskPolicy,
)

WORKERS = ("anna", "ben")
PATIENCE = 20.0
LONGEST_RUN = 90.0
PICTURES = 20


class UnexpectedError(Exception):
    """Something did not end as told."""


def expect(condition: object, what: str) -> None:
    """Fail the demo unless the condition holds."""
    if not condition:
        raise UnexpectedError(what)


@dataclass
class Shop:
    """Where the demo enqueues, and the worker processes that do the work."""

    manager: Manager
    supplies: Any
    workers: Mapping[str, subprocess.Popen[bytes]]
    told: dict[str, TaskHandle[Any]] = field(default_factory=dict)

    async def note(self, handle: TaskHandle[Any], details: str) -> None:
        """Tell that a task was enqueued, and remember it for the final table."""
        self.told[handle.type] = handle
        tell("demo", "enqueued", label(await handle.task()), details)

    async def wait_for(self, handle: TaskHandle[Any], condition: Callable[[Task], bool]) -> Task:
        """Read a task until it is as asked."""
        for _ in range(round(PATIENCE / 0.05)):
            task = await handle.task()
            if condition(task):
                return task
            await asyncio.sleep(0.05)
        raise UnexpectedError(f"{handle.type} did not get there in {PATIENCE:g} s")


async def ordinary_work(shop: Shop) -> None:
    """Typed tasks, one that fails and is tried again, one for later, and many at once."""
    manager = shop.manager
    remind = await manager.enqueue(REMIND, Letter(to="b@c.d"), TaskPolicy(delay=seconds(2.5)))
    await shop.note(remind, "to run in 2.5 s")
    welcome = await manager.enqueue(WELCOME, Letter(to="a@b.c"))
    await shop.note(welcome, "a typed payload, a typed result")
    charge = await manager.enqueue(CHARGE, Payment(order=7, cents=1999))
    await shop.note(charge, "will fail twice")
    invoice = await manager.enqueue(
        INVOICE, Payment(order=7, cents=1999), TaskPolicy(max_attempts=2)
    )
    await shop.note(invoice, "at most 2 attempts, and the printer has no paper")
    await one_report_at_a_time(shop)
    await many_thumbnails(shop)

    receipt = await welcome.result(PATIENCE)
    expect(receipt.reference == "welcome a@b.c", f"welcome returned {receipt}")
    receipt = await charge.result(PATIENCE)
    expect(receipt.reference == "order 7: 1999 cents", f"charge returned {receipt}")
    try:
        await invoice.result(PATIENCE)
        expect(condition=False, what="invoice succeeded without paper")
    except TaskFailedError as error:
        tell("demo", "dead", label(await invoice.task()), error.errors[-1].message)
    await remind.result(PATIENCE)
    await shop.told[REPORT.name].result(PATIENCE)


async def one_report_at_a_time(shop: Shop) -> None:
    """A unique key: the second request for the same report is refused, or joins the first."""
    policy = TaskPolicy(unique_key="report-2026-11", delay=seconds(1.5))
    report = await shop.manager.enqueue(REPORT, "2026-11", policy)
    await shop.note(report, "unique key report-2026-11")
    about = label(await report.task())
    try:
        await shop.manager.enqueue(REPORT, "2026-11", policy)
        expect(condition=False, what="a duplicate was not refused")
    except DuplicateTaskError as error:
        expect(error.existing_id == report.id, "the duplicate names another task")
        tell("demo", "refused", about, "a duplicate: the key is taken")
    again = await shop.manager.enqueue(REPORT, "2026-11", policy, on_conflict="return")
    expect(again.id == report.id, "the duplicate returned another task")
    tell("demo", "returned", about, 'a duplicate with on_conflict="return"')


async def many_thumbnails(shop: Shop) -> None:
    """A bulk enqueue that both workers share."""
    pictures = [Picture(name=f"{number}.png") for number in range(PICTURES)]
    handles = await shop.manager.enqueue_many(
        Enqueue(THUMBNAIL.queue, THUMBNAIL.name, picture) for picture in pictures
    )
    tell("demo", "enqueued", f"{PICTURES} thumbnails", "in one write")
    results = [THUMBNAIL.result_codec.decode(await each.result(PATIENCE)) for each in handles]
    expect([each.name for each in results] == [each.name for each in pictures], "mixed up")
    shares = Counter(each.worker for each in results)
    shared = ", ".join(f"{count} by {name}" for name, count in sorted(shares.items()))
    tell("demo", "settled", f"{PICTURES} thumbnails", shared)


async def a_worker_dies(shop: Shop) -> None:
    """Kill the process that works on a long task; the other one goes on with it."""
    handle = await shop.manager.enqueue(CATALOGUE, Catalogue(pages=10))
    await shop.note(handle, "10 pages")
    task = await shop.wait_for(handle, lambda task: (task.progress or 0) >= 4)  # type: ignore[operator]  # pages
    expect(task.lease is not None, "a task with progress has no lease")
    victim = worker_of(task.lease.owner) if task.lease else ""
    shop.workers[victim].send_signal(signal.SIGKILL)
    await asyncio.to_thread(shop.workers[victim].wait)
    tell("demo", "SIGKILL", label(task), f"{victim} died on page {task.progress} of 10")

    await paper_arrives(shop)
    receipt = await handle.result(PATIENCE)
    task = await handle.task()
    expect(task.attempts == 2, f"the catalogue took {task.attempts} attempts")
    expect([each.kind for each in task.errors] == ["lease_expired"], f"errors: {task.errors}")
    expect(worker_of(task.errors[0].worker) == victim, "the lapse names another worker")
    tell("demo", "finished", label(task), f"the survivor printed {receipt.reference}")


async def paper_arrives(shop: Shop) -> None:
    """Bring a dead letter back once its cause is gone."""
    await shop.supplies.update_one({"_id": "paper"}, {"$set": {"sheets": 1}}, upsert=True)
    invoice = shop.told[INVOICE.name]
    report = await shop.manager.requeue_dead(SHOP.name, INVOICE.name)
    expect(report.requeued == (invoice.id,), f"requeued {report}")
    tell("demo", "requeued", label(await invoice.task()), "there is paper now")
    await invoice.result(PATIENCE)


async def closing(shop: Shop) -> None:
    """Check every task against what was told, and show them."""
    attempts = {"charge": 3, "invoice": 1, "catalogue": 2}
    failures = {"charge": 2, "invoice": 2, "catalogue": 1}
    print(f"\n{'task':<18}{'status':<9}{'attempts':<10}{'failures':<10}result")
    for name, handle in shop.told.items():
        task = await handle.task()
        reference = (await handle.result(PATIENCE)).reference
        print(
            f"{label(task):<18}{task.status:<9}{task.attempts:<10}{len(task.errors):<10}{reference}"
        )
        expect(task.status is Status.DONE, f"{name} is {task.status}")
        expect(task.attempts == attempts.get(name, 1), f"{name} took {task.attempts} attempts")
        expect(len(task.errors) == failures.get(name, 0), f"{name} failed {len(task.errors)} times")
        early = task.started_at is not None and task.started_at < task.run_at
        expect(not early, f"{name} started before its time")


@asynccontextmanager
async def open_shop(uri: str) -> AsyncGenerator[Shop]:
    """Make a database and two worker processes, and see to it that nothing of them stays."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    database = f"gotasks_demo_{uuid4().hex[:12]}"
    store = MongoStore(client, database=database)
    workers: dict[str, subprocess.Popen[bytes]] = {}
    try:
        manager = Manager(store, queues=[SHOP])
        for name in WORKERS:
            workers[name] = start_worker(name, uri, database)
            tell("demo", "started", f"worker {name}", f"process {workers[name].pid}")
        yield Shop(manager, client[database]["supplies"], workers)
    finally:
        await asyncio.to_thread(end, workers)
        await store.aclose()
        await client.drop_database(database)
        await client.close()


def start_worker(name: str, uri: str, database: str) -> subprocess.Popen[bytes]:
    """Start a worker process in a session of its own: Ctrl-C is for the demo alone."""
    program = Path(__file__).with_name("demo_worker.py")
    return subprocess.Popen(
        [sys.executable, str(program), name, database],
        env=os.environ | {"GOTASKS_MONGODB_URI": uri},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def end(workers: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Stop the worker processes that still run."""
    for process in workers.values():
        process.terminate()
    for process in workers.values():
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


async def run(uri: str) -> None:
    """Tell the whole story."""
    async with asyncio.timeout(LONGEST_RUN), open_shop(uri) as shop:
        await ordinary_work(shop)
        await a_worker_dies(shop)
        await closing(shop)
        workers = shop.workers
    ends = sorted(process.returncode for process in workers.values())
    expect(ends == [-signal.SIGKILL, 0], f"the workers ended with {ends}")
    print("\nEverything ended as told, also what was under way when its worker was killed.")


def seconds(number: float) -> timedelta:
    """Shorten what the demo says often."""
    return timedelta(seconds=number)


def fail(reason: str, status: int) -> NoReturn:
    """Leave with one clear line."""
    print(f"\nThe demo failed: {reason}", file=sys.stderr)
    sys.exit(status)


def main() -> None:
    """Run the demo on a MongoDB."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with mongodb_uri() as uri:
            print("A shop on MongoDB: its tasks fail, wait, and survive the death of a worker.\n")
            asyncio.run(run(uri))
    except (UnexpectedError, GotasksError, PyMongoError) as error:
        fail(str(error), 1)
    except TimeoutError:
        fail(f"it took longer than {LONGEST_RUN:g} s", 1)
    except KeyboardInterrupt:
        fail("interrupted", 130)


if __name__ == "__main__":
    main()
