"""arq on Redis."""

from typing import Any, ClassVar

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.jobs import Job

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("arq", "redis")
_SETTINGS = RedisSettings.from_dsn(inside.url())
_pool: ArqRedis


async def perform(_: dict[str, Any], task: str, seconds: float) -> str:
    """Take a while."""
    return await witness.execute_async(task, seconds)


class WorkerSettings:
    """The safest: jobs may end before the worker does."""

    functions: ClassVar = [perform]
    redis_settings = _SETTINGS
    job_timeout = witness.DEADLINE_SECONDS
    job_completion_wait = 30 if inside.variant() == "safest" else 0


async def prepare() -> None:
    """Connect."""
    global _pool  # noqa: PLW0603  - one module, one connection
    _pool = await create_pool(_SETTINGS)


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    await _pool.enqueue_job("perform", task, seconds, _job_id=task)


async def record(task: str) -> tuple[str, str | None]:
    """Read the result."""
    job = Job(task, _pool)
    result = await job.result_info()
    if result is None:
        return (await job.status()).value, None
    return ("result", result.result) if result.success else (f"error: {result.result!r}", None)


def work() -> None:
    """Run the library's own worker."""
    inside.run("arq", f"{__name__}.WorkerSettings")
