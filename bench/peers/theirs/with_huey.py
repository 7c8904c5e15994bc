"""huey on Redis, or on MongoDB by the storage of huey-mongodb."""

from importlib import import_module

from huey import Huey, RedisHuey

from bench.peers import inside

_ON_MONGODB = inside.variant() == "mongodb"
PACKAGES = ("huey", "huey-mongodb", "pymongo") if _ON_MONGODB else ("huey", "redis")


def _made() -> Huey:
    if _ON_MONGODB:
        storage = import_module("huey_mongodb").MongoHuey
        return storage("bench", results=False, host=inside.url(), database="huey")
    return RedisHuey("bench", results=False, url=inside.url())


huey = _made()


@huey.task(name="note")
def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


async def prepare() -> None:
    """Look at the queue, which connects."""
    assert huey.pending_count() == 0


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    note(**inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue one by one: there is no bulk call."""
    for number in numbers:
        note(**inside.payload(number))


def work() -> None:
    """Run the library's own worker; a storage that cannot block is polled every 10 ms."""
    options = ("-w", "4", "-k", "thread", "-n", "-d", "0.01", "-m", "0.01", "-b", "1.0", "-q")
    inside.run("huey.bin.huey_consumer", f"{__name__}.huey", *options)
