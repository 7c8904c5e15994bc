"""dramatiq on Redis."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers import inside

PACKAGES = ("dramatiq", "redis")
dramatiq.set_broker(RedisBroker(url=inside.url()))


@dramatiq.actor(actor_name="note")
def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


async def prepare() -> None:
    """Connect."""
    dramatiq.get_broker().client.ping()


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    note.send(**inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue one by one: there is no bulk call."""
    for number in numbers:
        note.send(**inside.payload(number))


def work() -> None:
    """Run the library's own worker."""
    inside.run("dramatiq", __name__, "--processes", "1", "--threads", "16")
