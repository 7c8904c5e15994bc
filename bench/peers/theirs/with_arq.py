"""arq: the queue is a sorted set in Redis, polled."""

from typing import Any, ClassVar

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings

from bench.peers import inside

PACKAGES = ("arq", "redis")
_SETTINGS = RedisSettings.from_dsn(inside.url())
_pool: ArqRedis


async def note(_: dict[str, Any], *, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


class WorkerSettings:
    """One process; no results, and a short poll, for its default of 0.5 s is its latency."""

    functions: ClassVar = [note]
    redis_settings = _SETTINGS
    max_jobs = 100
    poll_delay = 0.01
    keep_result = 0
    log_results = False


async def prepare() -> None:
    """Connect."""
    global _pool  # noqa: PLW0603  - one module, one connection
    _pool = await create_pool(_SETTINGS)


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    await _pool.enqueue_job("note", **inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue from many callers: there is no bulk call."""
    await inside.at_once(enqueue_one, numbers)


def work() -> None:
    """Run the library's own worker."""
    inside.run("arq", f"{__name__}.WorkerSettings")
