"""What Prometheus scrapes is what the store knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gotasks_memstore import MemStore
from gotasks_py import ConfigurationError, LatencySketch, Node
from gotasks_py.errors import StoreUnavailableError
from gotasks_py.metering import Beat, Report
from gotasks_py.metrics import (
    Activity,
    Counters,
    Gauges,
    Window,
    counters_document,
    gauges_document,
)
from gotasks_py.prometheus import MetricsApp, StoreCollector
from gotasks_py.task import Status
from tests.lab import MINUTE, ManualClock

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemStore:
    return MemStore(clock=clock)


@pytest.fixture
async def prometheus(store: MemStore, anyio_backend: object) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=MetricsApp(store))
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        yield client


async def write(store: MemStore, version: int, *, manager: str = "m.1", **counts: int) -> None:
    activity = Activity(counters=Counters(**counts), run=LatencySketch.of([0.02] * version))
    start = store.clock.now().replace(second=0)
    window = Window(start=start, length=MINUTE, queue="q", type="t", activity=activity)
    await store.report(Report(counters=[counters_document(manager, window, version, DAY)]))


async def scraped(prometheus: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    answer = await prometheus.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_counters_and_histograms_rise_with_what_managers_write(
    store: MemStore, clock: ManualClock, prometheus: httpx.AsyncClient
) -> None:
    await write(store, 3, done=3)
    await write(store, 1, manager="m.2", failed=1)
    first = await scraped(prometheus)
    assert first["gotasks_events_total", "done", "q", "t"] == 3
    assert first["gotasks_events_total", "failed", "q", "t"] == 1
    assert first["gotasks_run_seconds_bucket", "0.01", "q", "t"] == 0
    assert first["gotasks_run_seconds_bucket", "0.025", "q", "t"] == 4
    assert first["gotasks_run_seconds_count", "q", "t"] == 4
    assert first["gotasks_run_seconds_sum", "q", "t"] == pytest.approx(0.08)
    await write(store, 5, done=5)
    assert (await scraped(prometheus))["gotasks_events_total", "done", "q", "t"] == 5
    clock.advance(MINUTE)
    await write(store, 2, done=2)
    assert (await scraped(prometheus))["gotasks_events_total", "done", "q", "t"] == 7


async def test_counters_never_fall_when_windows_are_read_no_more(
    store: MemStore, clock: ManualClock, prometheus: httpx.AsyncClient
) -> None:
    await write(store, 3, done=3)
    await scraped(prometheus)
    clock.advance(20 * MINUTE)
    assert (await scraped(prometheus))["gotasks_events_total", "done", "q", "t"] == 3
    await write(store, 2, done=2)
    assert (await scraped(prometheus))["gotasks_events_total", "done", "q", "t"] == 5


async def test_queues_and_managers_are_told(store: MemStore, prometheus: httpx.AsyncClient) -> None:
    gauges = Gauges(
        start=store.clock.now(),
        length=MINUTE,
        queue="q",
        at=store.clock.now(),
        counts={Status.PENDING: 7},
        oldest_due_age=timedelta(seconds=90),
        is_paused=True,
        wanted_workers=5,
    )
    node = Node(id="m.1", host="h", pid=1, version="1", capacity=8, running=3)
    beat = Beat(node=node, good_for=MINUTE)
    await store.report(Report(gauges=[gauges_document(gauges, DAY)], beat=beat))
    told = await scraped(prometheus)
    assert told["gotasks_queue_tasks", "pending", "q"] == 7
    assert told["gotasks_queue_oldest_due_age_seconds", "q"] == 90
    assert told["gotasks_queue_paused", "q"] == 1
    assert told["gotasks_queue_wanted_workers", "q"] == 5
    assert told["gotasks_nodes",] == 1
    assert told["gotasks_workers",] == 8
    assert told["gotasks_workers_busy",] == 3


async def test_a_store_that_is_away_is_told_of(
    store: MemStore, prometheus: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(**query: Any) -> None:
        raise StoreUnavailableError("the database did not answer")

    monkeypatch.setattr(store, "metrics", away)
    answer = await prometheus.get("/metrics")
    assert (answer.status_code, answer.text) == (503, "the database did not answer\n")


async def test_only_get_is_answered(prometheus: httpx.AsyncClient) -> None:
    answer = await prometheus.post("/metrics")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_lifespan_is_lived_through(store: MemStore) -> None:
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await MetricsApp(store)({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_what_keeps_no_metrics_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="keeps metrics"):
        StoreCollector("mongodb://localhost")
