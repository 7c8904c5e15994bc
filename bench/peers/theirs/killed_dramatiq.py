"""dramatiq on Redis, with results."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends import RedisBackend

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("dramatiq", "redis")
_options = {"maintenance_chance": 1_000_000} if inside.variant() == "safest" else {}
_broker = RedisBroker(
    url=inside.url(), heartbeat_timeout=1000 * witness.DEADLINE_SECONDS, **_options
)
_results = RedisBackend(url=inside.url())
_broker.add_middleware(Results(backend=_results, store_results=True))
dramatiq.set_broker(_broker)
_sent: dict[str, dramatiq.Message] = {}


@dramatiq.actor
def perform(task: str, seconds: float) -> str:
    """Take a while."""
    return witness.execute(task, seconds)


async def prepare() -> None:
    """Connect."""
    _broker.client.ping()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    _sent[task] = perform.send(task, seconds)


async def record(task: str) -> tuple[str, str | None]:
    """Read the result."""
    try:
        return "result", _sent[task].get_result(backend=_results)
    except ResultMissing:
        return "no result", None


def work() -> None:
    """Run the library's own worker."""
    inside.run("dramatiq", __name__, "--processes", "1")
