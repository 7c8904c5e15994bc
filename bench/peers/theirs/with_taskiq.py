"""taskiq on Redis, by its stream broker or by its list broker."""

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from bench.peers import inside

PACKAGES = ("taskiq", "taskiq-redis", "redis")
broker = {"list": ListQueueBroker, "stream": RedisStreamBroker}[inside.variant()](inside.url())


@broker.task("note")
async def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


async def prepare() -> None:
    """Connect, and make the stream's consumer group."""
    await broker.startup()


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    await note.kiq(**inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue from many callers: there is no bulk call."""
    await inside.at_once(enqueue_one, numbers)


def work() -> None:
    """Run the library's own worker."""
    options = ("--workers", "1", "--no-parse", "--log-level", "ERROR")
    inside.run("taskiq", "worker", *options, f"{__name__}:broker")
