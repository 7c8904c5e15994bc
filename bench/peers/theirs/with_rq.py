"""RQ: lists and hashes of Redis."""

from redis import Redis
from rq import Queue

from bench.peers import inside

PACKAGES = ("rq", "redis")
_queue = Queue("bench", connection=Redis.from_url(inside.url()))


def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


async def prepare() -> None:
    """Connect."""
    _queue.connection.ping()


async def enqueue_one(number: int) -> None:
    """Enqueue a task whose result is not kept."""
    _queue.enqueue(note, kwargs=inside.payload(number), result_ttl=0)


async def enqueue_many(numbers: range) -> None:
    """Enqueue by pipelines."""
    for chunk in inside.chunks(numbers):
        _queue.enqueue_many(
            Queue.prepare_data(note, kwargs=inside.payload(number), result_ttl=0)
            for number in chunk
        )


def work() -> None:
    """Run the library's own worker: the one that forks no process for each task."""
    simple = ("--worker-class", "rq.worker.SimpleWorker")
    inside.run("rq.cli", "worker", "bench", "--url", inside.url(), "--quiet", *simple)
