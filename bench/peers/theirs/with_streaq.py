"""streaq: streams of Redis, moved by Lua functions."""

import json

from streaq import Worker

from bench.peers import inside

PACKAGES = ("streaq", "coredis")
worker = Worker(
    redis_url=inside.url(),
    concurrency=64,
    serializer=json.dumps,
    deserializer=json.loads,
)


@worker.task(ttl=0)
async def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


async def prepare() -> None:
    """Connect for good: the process ends without closing."""
    await worker.__aenter__()


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    await note.enqueue(**inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue by pipelines."""
    for chunk in inside.chunks(numbers):
        await worker.enqueue_many([note.enqueue(**inside.payload(number)) for number in chunk])


def work() -> None:
    """Run the library's own worker."""
    inside.run("streaq", "run", f"{__name__}:worker")
