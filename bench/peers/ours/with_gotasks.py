"""gotasks_py on MongoDB: the single mode, or the pipeline mode."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from pydantic import BaseModel

from bench.peers import inside
from gotasks_mongostore import MongoStore
from gotasks_py import Enqueue, Manager, PipelineMode, QueuePolicy, TaskType

PACKAGES = ("gotasks-py", "pymongo")


class Note(BaseModel):
    """The payload."""

    to: str
    subject: str
    number: int


_NOTE: Final = TaskType("bench", "note", Note, None)
_PIPELINE: Final = inside.variant() == "pipeline"
_manager: Manager


async def _made() -> Manager:
    return Manager(
        await MongoStore.connect(inside.url(), database="gotasks"),
        queues=[QueuePolicy("bench", lanes=4)],
        workers=64 if _PIPELINE else 16,
        mode=PipelineMode() if _PIPELINE else None,
    )


async def prepare() -> None:
    """Connect, and make the indexes."""
    global _manager  # noqa: PLW0603  - one module, one connection
    _manager = await _made()


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    await _manager.enqueue(_NOTE, Note(to="a@example.com", subject="hello", number=number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue in one call, which sends them in chunks."""
    await _manager.enqueue_many(
        Enqueue("bench", "note", Note(to="a@example.com", subject="hello", number=number))
        for number in numbers
    )


def work() -> None:
    """Run a manager until told to stop."""
    asyncio.run(_work())


async def _work() -> None:
    manager = await _made()

    @manager.handler(_NOTE)
    async def handle(note: Note) -> None:
        inside.ledger.note(note.number)

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with manager:
        await stopping.wait()
