"""A shop that is watched: two managers, work of all kinds, failures included, and the dashboard.

``make dashboard`` runs it on a throw-away MongoDB, or on ``GOTASKS_MONGODB_URI``, until Ctrl-C,
and tells where to look. ``--seconds 5`` ends it by itself; ``--port 0`` takes any free port.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Literal

import uvicorn
from pydantic import BaseModel, Field

from gotasks_dashboard import Permission, dashboard
from gotasks_py import (
    Exponential,
    Fixed,
    Manager,
    MetricsConfig,
    QueuePolicy,
    Reject,
    Status,
    Store,
    TaskContext,
    TaskPolicy,
    TaskType,
)
from throwaway import throwaway_store


class Letter(BaseModel):
    """A letter to a customer."""

    to: str = Field(description="whom it goes to", min_length=3)
    template: Literal["welcome", "receipt", "reminder"] = "welcome"
    copies: int = Field(default=1, ge=1, le=9)
    note: str | None = None


class Picture(BaseModel):
    """A picture to shrink."""

    file: str
    widths: list[int] = Field(default=[320, 640], max_length=5)


class Charge(BaseModel):
    """What to charge, and for which order."""

    order: int = Field(ge=1)
    cents: int = Field(ge=1)
    currency: Literal["EUR", "USD", "CHF"] = "EUR"


SECOND = timedelta(seconds=1)

QUEUES = [
    QueuePolicy("letters", max_attempts=4, backoff=Exponential(base=2 * SECOND)),
    QueuePolicy("pictures", max_attempts=2, backoff=Fixed(3 * SECOND), workers=3),
    QueuePolicy("billing", max_attempts=3, weight=3, backoff=Fixed(5 * SECOND)),
    QueuePolicy("reports", max_attempts=1),
]

LETTER = TaskType("letters", "send", Letter, str)
PICTURE = TaskType("pictures", "shrink", Picture, dict[str, int])
CHARGE = TaskType("billing", "charge", Charge, str)
REPORT = TaskType("reports", "month", str, int)


async def send(letter: Letter) -> str:
    """Send a letter; the server is away now and then."""
    await asyncio.sleep(random.expovariate(6))
    if random.random() < 0.12:
        raise TimeoutError(f"smtp{random.randint(1, 3)} did not answer within 5 s")
    return f"250 queued for {letter.to}"


async def shrink(picture: Picture) -> dict[str, int]:
    """Shrink a picture; a file that is none will never be one."""
    await asyncio.sleep(random.lognormvariate(-1, 0.8))
    if random.random() < 0.06:
        raise Reject("the file is no picture")
    return {str(width): width * 3 // 4 for width in picture.widths}


async def charge(wanted: Charge) -> str:
    """Charge a card; the bank is not always in the mood."""
    await asyncio.sleep(random.uniform(0.1, 0.6))
    if random.random() < 0.3:
        raise ConnectionResetError("the bank hung up")
    return f"order {wanted.order}: {wanted.cents} cents"


async def month(context: TaskContext, name: str) -> int:
    """Report on a month, page by page."""
    for page in range(40):
        await context.progress({"done": page, "total": 40})
        await asyncio.sleep(0.5)
    return len(name)


def manager_of(store: Store, name: str) -> Manager:
    """Make a manager that does all of the shop's work."""
    metrics = MetricsConfig(interval=2 * SECOND)
    manager = Manager(store, queues=QUEUES, name=name, workers=6, metrics=metrics)
    manager.handler(LETTER)(send)
    manager.handler(PICTURE)(shrink)
    manager.handler(CHARGE)(charge)
    manager.handler(REPORT)(month)
    return manager


async def customers(manager: Manager) -> None:
    """Enqueue as customers come: in bursts, and some of it for later."""
    number = 0
    while True:
        number += 1
        name = random.choice(["ann", "bob", "zoë", "ida", "omar"])
        template = random.choice(["welcome", "receipt", "reminder"])
        letter = Letter.model_validate({"to": f"{name}@example.org", "template": template})
        await manager.enqueue(LETTER, letter, TaskPolicy(tags=[template]))
        if number % 2 == 0:
            await manager.enqueue(PICTURE, Picture(file=f"{name}-{number}.png"))
        if number % 3 == 0:
            policy = TaskPolicy(unique_key=f"order-{number}", tags=["eu"] if number % 2 else [])
            await manager.enqueue(CHARGE, Charge(order=number, cents=1999), policy)
        if number % 25 == 0:
            later = TaskPolicy(delay=timedelta(minutes=random.randint(1, 30)))
            await manager.enqueue(LETTER, letter, later)
        if number % 40 == 1:
            await manager.enqueue(REPORT, f"2026-{number % 12 + 1:02}")
        is_burst = number // 60 % 2 == 1
        await asyncio.sleep(random.expovariate(8 if is_burst else 3))


@asynccontextmanager
async def at_work(store: Store) -> AsyncGenerator[Manager]:
    """Let two managers work and customers come, until the block ends."""
    async with AsyncExitStack() as stack:
        managers = [manager_of(store, name) for name in ("anna", "ben")]
        for manager in managers:
            await stack.enter_async_context(manager)
        coming = asyncio.create_task(customers(managers[0]))
        try:
            yield managers[0]
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError):
                await coming


async def run(port: int, seconds: float | None) -> None:
    """Serve the dashboard of the shop."""
    async with throwaway_store() as store, at_work(store) as manager:
        # Everybody who reaches it may do everything: it listens on this machine alone.
        app = dashboard(manager, authorize=lambda _: set(Permission), title="shop")
        with socket.create_server(("127.0.0.1", port)) as listener:
            config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
            server = uvicorn.Server(config)
            print(f"look at http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
            if seconds is not None:
                asyncio.get_running_loop().call_later(seconds, end, server)
            await server.serve(sockets=[listener])
        overview = await store.overview()
        done = sum(each.counts[Status.DONE].value for each in overview)
        print(f"{len(overview)} queues, tasks done: {done > 0}")


def end(server: uvicorn.Server) -> None:
    """Let a server end what it does, and stop."""
    server.should_exit = True


def main() -> None:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--seconds", type=float)
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(run(arguments.port, arguments.seconds))


if __name__ == "__main__":
    main()
