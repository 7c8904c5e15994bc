"""taskiq on Redis with results: the list broker, or the stream broker, which acknowledges."""

from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("taskiq", "taskiq-redis", "redis")


def _made() -> ListQueueBroker | RedisStreamBroker:
    if inside.variant() == "list":
        return ListQueueBroker(inside.url())
    return RedisStreamBroker(
        inside.url(),
        idle_timeout=1000 * witness.DEADLINE_SECONDS,
        unacknowledged_lock_timeout=5,
    )


_results = RedisAsyncResultBackend(inside.url())
broker = _made().with_result_backend(_results)


@broker.task("work")
async def perform(task: str, seconds: float) -> str:
    """Take a while."""
    return await witness.execute_async(task, seconds)


async def prepare() -> None:
    """Connect, and make the stream's consumer group."""
    await broker.startup()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    await perform.kicker().with_task_id(task).kiq(task, seconds)


async def record(task: str) -> tuple[str, str | None]:
    """Read the result."""
    if not await _results.is_result_ready(task):
        return "no result", None
    result = await _results.get_result(task)
    return ("error", None) if result.is_err else ("result", result.return_value)


def work() -> None:
    """Run the library's own worker."""
    inside.run("taskiq", "worker", "--workers", "1", f"{__name__}:broker")
