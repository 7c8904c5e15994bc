"""gotasks_py on MongoDB: either mode, with its defaults, with one attempt, or in a thread."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from pydantic import BaseModel

from bench.peers import inside
from bench.peers.kill import witness
from gotasks_mongostore import MongoStore
from gotasks_py import Manager, PipelineMode, QueuePolicy, Status, TaskHandle, TaskType

PACKAGES = ("gotasks-py", "pymongo")


class Work(BaseModel):
    """The payload."""

    task: str
    seconds: float


_WORK: Final = TaskType("bench", "work", Work, str)
_mode, _setting = inside.variant().split(":")
_handles: dict[str, TaskHandle[str]] = {}
_manager: Manager


async def _made() -> Manager:
    once = _setting == "once"
    return Manager(
        await MongoStore.connect(inside.url(), database="gotasks_kill"),
        queues=[QueuePolicy("bench", max_attempts=1) if once else QueuePolicy("bench")],
        lease=timedelta(seconds=witness.DEADLINE_SECONDS),
        mode=PipelineMode() if _mode == "pipeline" else None,
    )


async def prepare() -> None:
    """Connect, and make the indexes."""
    global _manager  # noqa: PLW0603  - one module, one connection
    _manager = await _made()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    _handles[task] = await _manager.enqueue(_WORK, Work(task=task, seconds=seconds))


async def record(task: str) -> tuple[str, str | None]:
    """Read the task."""
    stored = await _handles[task].task()
    done = stored.status is Status.DONE
    return stored.status.value, await _handles[task].result() if done else None


def work() -> None:
    """Run a manager as a program does."""
    asyncio.run(_work())


async def _work() -> None:
    manager = await _made()
    manager.handler(_WORK)(_handle_in_thread if _setting == "thread" else _handle)
    await manager.run()


async def _handle(work: Work) -> str:
    return await witness.execute_async(work.task, work.seconds)


def _handle_in_thread(work: Work) -> str:
    return witness.execute(work.task, work.seconds)
