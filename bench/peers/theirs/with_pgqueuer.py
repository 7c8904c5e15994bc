"""pgqueuer: rows of PostgreSQL, taken and deleted in batches."""

import json

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job

from bench.peers import inside

PACKAGES = ("pgqueuer", "asyncpg")
_queries: Queries


async def _work() -> None:
    worker = PgQueuer(AsyncpgPoolDriver(await asyncpg.create_pool(inside.url())))

    @worker.entrypoint("note")
    async def note(job: Job) -> None:
        assert job.payload is not None
        inside.ledger.note(json.loads(job.payload)["number"])

    await worker.run(batch_size=2000)


async def prepare() -> None:
    """Connect and install the schema, with every table logged."""
    global _queries  # noqa: PLW0603  - one module, one connection
    _queries = Queries(AsyncpgPoolDriver(await asyncpg.create_pool(inside.url())))
    await _queries.install()


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    await _queries.enqueue("note", json.dumps(inside.payload(number)).encode())


async def enqueue_many(numbers: range) -> None:
    """Enqueue lists."""
    for chunk in inside.chunks(numbers):
        payloads = [json.dumps(inside.payload(number)).encode() for number in chunk]
        await _queries.enqueue(["note"] * len(chunk), payloads, [0] * len(chunk))


def work() -> None:
    """Run a worker as its command line does, with batches far over its default of 10."""
    uvloop.run(_work())
