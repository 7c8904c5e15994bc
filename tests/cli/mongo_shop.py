"""An APP on MongoDB for real processes; SHOP_URL says where."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import anyio

from gotasks_mongostore import MongoStore
from gotasks_py import Fixed, Manager, QueuePolicy

manager = Manager(
    MongoStore.from_url(os.environ["SHOP_URL"]),
    queues=[QueuePolicy("q"), QueuePolicy("other")],
    workers=2,
    lease=timedelta(seconds=5),
    fallback_poll=timedelta(milliseconds=100),
    backoff=Fixed(timedelta(0)),
)


@manager.handler("q", "pid")
async def pid() -> int:
    return os.getpid()


@manager.handler("other", "pid")
async def other_pid() -> int:
    return os.getpid()


@manager.handler("q", "sleep")
async def sleep(seconds: float) -> str:
    print(f"{os.getpid()} sleeps", file=sys.stderr, flush=True)
    await anyio.sleep(seconds)
    return "slept"


@manager.handler("q", "die")
async def die(message: str) -> None:
    os.kill(os.getpid(), 9)
    time.sleep(60)  # noqa: ASYNC251  - until the signal arrives
