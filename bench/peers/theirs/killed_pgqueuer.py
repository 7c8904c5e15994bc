"""pgqueuer on PostgreSQL; it keeps a log of a job's states, but no result."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer, Queries, run
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("pgqueuer", "asyncpg")
_jobs: dict[str, int] = {}
_queries: Queries


@asynccontextmanager
async def make() -> AsyncGenerator[PgQueuer]:
    """Make a worker, for the library to supervise."""
    worker = PgQueuer(AsyncpgPoolDriver(await asyncpg.create_pool(inside.url())))

    @worker.entrypoint("work")
    async def perform(job: Job) -> None:
        assert job.payload is not None
        await witness.execute_async(**json.loads(job.payload))

    yield worker


async def prepare() -> None:
    """Connect and install the schema."""
    global _queries  # noqa: PLW0603  - one module, one connection
    _queries = Queries(AsyncpgPoolDriver(await asyncpg.create_pool(inside.url())))
    await _queries.install()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    payload = json.dumps({"task": task, "seconds": seconds}).encode()
    (_jobs[task],) = await _queries.enqueue("work", payload)


async def record(task: str) -> tuple[str, str | None]:
    """Read the log: every state that the job was in."""
    lines = [line for line in await _queries.queue_log() if line.job_id == _jobs[task]]
    return ", ".join(line.status for line in sorted(lines, key=lambda line: line.created)), None


def work() -> None:
    """Run the library's own worker."""
    # What its command does, which fails before that beside the typer that it installs.
    deadline = timedelta(seconds=witness.DEADLINE_SECONDS)
    asyncio.run(run(make, heartbeat_timeout=deadline))
