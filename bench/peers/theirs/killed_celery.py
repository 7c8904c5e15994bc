"""Celery on Redis, or on MongoDB by kombu's transport, with results."""

from celery import Celery
from celery.result import AsyncResult

from bench.peers import inside
from bench.peers.kill import witness

_ON_REDIS = inside.url().startswith("redis")
PACKAGES = ("celery", "kombu", "redis" if _ON_REDIS else "pymongo")

app = Celery(broker=inside.url(), backend=inside.url())
if inside.variant() == "safest":
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_transport_options={}
        if not _ON_REDIS
        else {
            "visibility_timeout": witness.DEADLINE_SECONDS,
            # So often it is looked for what has lapsed; kombu shortens it for short timeouts.
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
        },
        result_backend_transport_options={"visibility_timeout": witness.DEADLINE_SECONDS},
        visibility_timeout=witness.DEADLINE_SECONDS,
    )


@app.task(name="work")
def perform(task: str, seconds: float) -> str:
    """Take a while."""
    return witness.execute(task, seconds)


async def prepare() -> None:
    """Connect."""
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1)


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    perform.apply_async((task, seconds), task_id=task)


async def record(task: str) -> tuple[str, str | None]:
    """Read the result."""
    result = AsyncResult(task, app=app)
    return result.state, result.result if result.successful() else None


def work() -> None:
    """Run the library's own worker."""
    inside.run("celery", "-A", __name__, "worker", "--loglevel=WARNING")
