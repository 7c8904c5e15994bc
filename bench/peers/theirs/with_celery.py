"""Celery, on Redis or on MongoDB by kombu's transports."""

from typing import Any

from celery import Celery

from bench.peers import inside

_ON_REDIS = inside.url().startswith("redis")
PACKAGES = ("celery", "kombu", "redis" if _ON_REDIS else "pymongo")

app = Celery(broker=inside.url())
app.conf.update(
    # Redis blocks; for what is polled, the default of 1 s would be its latency.
    broker_transport_options={} if _ON_REDIS else {"polling_interval": 0.01},
    task_ignore_result=True,
    task_acks_late=inside.variant() == "late",
    worker_prefetch_multiplier=64,
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
)


@app.task(name="note")
def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


def _send(number: int, producer: Any = None) -> None:
    note.apply_async(kwargs=inside.payload(number), producer=producer)


async def prepare() -> None:
    """Connect."""
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1)


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    _send(number)


async def enqueue_many(numbers: range) -> None:
    """Enqueue on one producer, whose batches are pipelines where the transport has them."""
    with app.producer_pool.acquire(block=True) as producer, producer.batch():
        for number in numbers:
            _send(number, producer)


def work() -> None:
    """Run the library's own worker: threads are twice as fast as no pool or one child."""
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")
    inside.run("celery", "-A", __name__, "worker", "--pool=threads", "--concurrency=8", *quiet)
