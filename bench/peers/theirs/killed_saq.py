"""SAQ on Redis."""

from typing import Any

from saq import Queue

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("saq", "redis")
_SAFEST = inside.variant() == "safest"
_queue = Queue.from_url(inside.url())


async def perform(_: dict[str, Any], *, task: str, seconds: float) -> str:
    """Take a while."""
    return await witness.execute_async(task, seconds)


settings: dict[str, Any] = {
    "queue": _queue,
    "functions": [perform],
    "timers": {"sweep": witness.DEADLINE_SECONDS},
}
if _SAFEST:
    settings["shutdown_grace_period_s"] = 30


async def prepare() -> None:
    """Connect."""
    await _queue.connect()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task, with the default timeout of 10 s."""
    options = {"retries": 3} if _SAFEST else {}
    await _queue.enqueue("perform", key=task, task=task, seconds=seconds, **options)


async def record(task: str) -> tuple[str, str | None]:
    """Read the job."""
    job = await _queue.job(task)
    return ("gone", None) if job is None else (job.status.value, job.result)


def work() -> None:
    """Run the library's own worker."""
    inside.run("saq", "--verbose", f"{__name__}.settings")
