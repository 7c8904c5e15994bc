"""SAQ: lists in Redis, with sets that tell what is incomplete."""

from typing import Any

from saq import Queue

from bench.peers import inside

PACKAGES = ("saq", "redis")
_queue = Queue.from_url(inside.url())


async def note(_: dict[str, Any], *, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


settings = {"queue": _queue, "functions": [note], "concurrency": 50}


async def prepare() -> None:
    """Connect."""
    await _queue.connect()


async def enqueue_one(number: int) -> None:
    """Enqueue a task whose result is not kept."""
    await _queue.enqueue("note", ttl=-1, **inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue from many callers: there is no bulk call."""
    await inside.at_once(enqueue_one, numbers)


def work() -> None:
    """Run the library's own worker."""
    inside.run("saq", f"{__name__}.settings")
