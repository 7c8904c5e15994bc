"""streaq on Redis."""

import json

from streaq import Worker
from streaq.task import Task, TaskStatus

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("streaq", "coredis")
worker = Worker(
    redis_url=inside.url(),
    idle_timeout=witness.DEADLINE_SECONDS,
    grace_period=30 if inside.variant() == "safest" else 0,
    serializer=json.dumps,
    deserializer=json.loads,
)
_sent: dict[str, Task] = {}


@worker.task
async def perform(task: str, seconds: float) -> str:
    """Take a while."""
    return await witness.execute_async(task, seconds)


async def prepare() -> None:
    """Connect for good: the process ends without closing."""
    await worker.__aenter__()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    _sent[task] = await perform.enqueue(task, seconds)


async def record(task: str) -> tuple[str, str | None]:
    """Read the result."""
    status = await _sent[task].status()
    if status is not TaskStatus.DONE:
        return status.value, None
    result = await _sent[task].result(1)
    return ("done", result.result) if result.success else ("failed", None)


def work() -> None:
    """Run the library's own worker."""
    inside.run("streaq", "run", f"{__name__}:worker")
