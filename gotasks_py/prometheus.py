"""For Prometheus: a collector over a store's metrics, and an ASGI app that serves them.

Needs the extra ``gotasks-py[prometheus]``. What a store tells is of all managers, so one
process that serves it is enough.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gotasks_py._totals import StoreTotals, TypeKey
from gotasks_py.errors import ConfigurationError, StoreError
from gotasks_py.metrics import COUNTERS, LATENCIES, Activity

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
"""The upper bounds of the histograms' buckets, in seconds."""


class StoreCollector(Collector):
    """Tells a ``prometheus_client`` registry what a store knows.

    Counters begin with the last ten minutes when the collector is made, and rise with what all
    managers write.
    ``await refresh()`` before each scrape: collecting itself does not wait for a database.

    Raises:
        ConfigurationError: the store keeps no metrics.
    """

    def __init__(self, store: object) -> None:
        self._totals = StoreTotals(store)

    async def refresh(self) -> None:
        """Read what is new.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        await self._totals.refresh()

    def collect(self) -> Iterator[Metric]:
        """Yield what was read last."""
        yield from self._counted()
        yield from self._gauged()
        yield from self._manned()

    def _counted(self) -> Iterator[Metric]:
        totals = self._totals.totals()
        events = CounterMetricFamily(
            "gotasks_events", "What happened to tasks.", labels=("queue", "type", "event")
        )
        for (queue, name), activity in totals.items():
            for event in COUNTERS:
                events.add_metric((queue, name, event), getattr(activity.counters, event))
        yield events
        for latency in LATENCIES:
            yield _histogram(latency, totals)

    def _gauged(self) -> Iterator[Metric]:
        tasks = GaugeMetricFamily(
            "gotasks_queue_tasks", "How many tasks there are.", labels=("queue", "status")
        )
        age = GaugeMetricFamily(
            "gotasks_queue_oldest_due_age_seconds",
            "For how long the first task in line has been due.",
            labels=("queue",),
        )
        paused = GaugeMetricFamily(
            "gotasks_queue_paused", "Whether the queue is paused.", labels=("queue",)
        )
        wanted = GaugeMetricFamily(
            "gotasks_queue_wanted_workers",
            "How many workers would keep waits as short as is wanted.",
            labels=("queue",),
        )
        for queue, gauges in self._totals.gauges.items():
            for status, count in gauges.counts.items():
                tasks.add_metric((queue, status.value), count)
            age.add_metric((queue,), gauges.oldest_due_age.total_seconds())
            paused.add_metric((queue,), gauges.is_paused)
            wanted.add_metric((queue,), gauges.wanted_workers)
        yield from (tasks, age, paused, wanted)

    def _manned(self) -> Iterator[Metric]:
        nodes = self._totals.nodes
        yield GaugeMetricFamily("gotasks_nodes", "How many managers run.", len(nodes))
        yield GaugeMetricFamily(
            "gotasks_workers",
            "How many tasks all managers can run at once.",
            sum(node.capacity for node in nodes),
        )
        yield GaugeMetricFamily(
            "gotasks_workers_busy",
            "How many tasks all managers are running.",
            sum(node.running for node in nodes),
        )


def _histogram(latency: str, totals: Mapping[TypeKey, Activity]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        f"gotasks_{latency}_seconds", _MEANINGS[latency], labels=("queue", "type")
    )
    for labels, activity in totals.items():
        sketch = getattr(activity, latency)
        counts = sketch.counts_below(BOUNDS)
        buckets = [(str(float(bound)), count) for bound, count in zip(BOUNDS, counts, strict=True)]
        buckets.append(("+Inf", sketch.count))
        family.add_metric(labels, buckets, sketch.total_seconds)
    return family


_MEANINGS: Final = {
    "wait": "From the moment a task is due until it is claimed.",
    "run": "How long handlers ran.",
    "end_to_end": "From the enqueue of a task to its success.",
}


class MetricsApp:
    """An ASGI app that answers GET with all that a :class:`StoreCollector` tells.

    Mount it where Prometheus looks, or run it on its own. It opens the store by itself and
    needs no lifespan. While the database does not answer, it answers 503.
    """

    def __init__(self, store: object) -> None:
        self._collector = StoreCollector(store)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] != "http":
            msg = f"MetricsApp answers HTTP, not {scope['type']}"
            raise ConfigurationError(msg)
        elif scope["method"] not in {"GET", "HEAD"}:
            await _answer(send, 405, "text/plain", b"only GET\n", ("allow", "GET, HEAD"))
        else:
            await self._scrape(scope, send)

    async def _scrape(self, scope: Scope, send: Send) -> None:
        try:
            await self._collector.refresh()
        except StoreError as error:
            await _answer(send, 503, "text/plain; charset=utf-8", f"{error}\n".encode())
            return
        headers = dict(scope.get("headers", ()))
        encode, content_type = choose_encoder(headers.get(b"accept", b"").decode("latin-1"))
        await _answer(send, 200, content_type, encode(self._registry))


async def _answer(
    send: Send, status: int, content_type: str, body: bytes, *more: tuple[str, str]
) -> None:
    headers = [("content-type", content_type), ("content-length", str(len(body))), *more]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
