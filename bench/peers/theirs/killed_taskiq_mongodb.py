"""taskiq on MongoDB, by the broker and the results of taskiq-mongodb."""

from taskiq_mongodb import MongoBroker, MongoResultBackend

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("taskiq", "taskiq-mongodb", "pymongo")
_RETRIES = {"max_retries": 3} if inside.variant() == "safest" else {}
_QUEUE = {"name": "bench", "visibility_timeout": witness.DEADLINE_SECONDS, **_RETRIES}
_results = MongoResultBackend(inside.url(), "taskiq")
broker = MongoBroker(inside.url(), "taskiq", _QUEUE).with_result_backend(_results)


@broker.task("work")
async def perform(task: str, seconds: float) -> str:
    """Take a while."""
    return await witness.execute_async(task, seconds)


async def prepare() -> None:
    """Connect, and make the indexes."""
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
