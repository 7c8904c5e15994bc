"""What a store tells of all managers, as OpenTelemetry collects it."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from gotasks_memstore import MemStore
from gotasks_py import ConfigurationError, Gauges, Manager, QueuePolicy, Status
from gotasks_py.errors import StoreUnavailableError
from gotasks_py.metering import Beat, Report
from gotasks_py.metrics import gauges_document
from gotasks_py.nodes import Node
from gotasks_py.opentelemetry import OpenTelemetryMetrics
from tests.lab import MINUTE, ManualClock

pytestmark = pytest.mark.anyio


class World:
    """A store, and what an exporter sees of it."""

    def __init__(self, store: MemStore) -> None:
        self._reader = InMemoryMetricReader()
        self.metrics = OpenTelemetryMetrics(store, MeterProvider([self._reader]))

    async def collected(self) -> dict[tuple[Any, ...], float]:
        await self.metrics.refresh()
        data: Any = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            (metric.name, *sorted(map(str, point.attributes.values()))): point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }


async def test_what_managers_do_is_counted_and_timed() -> None:
    store = MemStore()
    world = World(store)
    manager = Manager(store, queues=[QueuePolicy("q")], name="m")

    @manager.handler("q", "t")
    async def work(payload: None) -> None:
        await anyio.sleep(0.02)

    async with manager:
        handles = [await manager.enqueue("q", "t") for _ in range(3)]
        for handle in handles:
            await handle.result(timeout=5)
    told = await world.collected()
    assert told["gotasks.events", "done", "q", "t"] == 3
    assert told["gotasks.events", "enqueued", "q", "t"] == 3
    assert told["gotasks.events", "dead", "q", "t"] == 0
    assert 0.0196 <= told["gotasks.run", "0.5", "q", "t"] <= told["gotasks.run", "0.99", "q", "t"]
    assert told["gotasks.wait", "0.95", "q", "t"] >= 0
    assert told["gotasks.end_to_end", "0.95", "q", "t"] >= 0.0196


async def test_queues_and_managers_are_told() -> None:
    store = MemStore(clock=ManualClock())
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
    await store.report(Report(gauges=[gauges_document(gauges, MINUTE)], beat=beat))
    assert await World(store).collected() == {
        ("gotasks.queue.tasks", "pending", "q"): 7,
        ("gotasks.queue.oldest_due_age", "q"): 90,
        ("gotasks.queue.paused", "q"): 1,
        ("gotasks.queue.wanted_workers", "q"): 5,
        ("gotasks.nodes",): 1,
        ("gotasks.workers",): 8,
        ("gotasks.workers.busy",): 3,
    }


async def test_an_outage_is_logged_once_and_outlasted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = MemStore()
    calls: Counter[str] = Counter()
    nodes = store.nodes
    enough = anyio.Event()

    async def unsteady() -> Any:
        calls["nodes"] += 1
        if calls["nodes"] < 4:
            raise StoreUnavailableError("the database did not answer")
        enough.set()
        return await nodes()

    monkeypatch.setattr(store, "nodes", unsteady)
    async with anyio.create_task_group() as group:
        group.start_soon(OpenTelemetryMetrics(store).run, timedelta(milliseconds=100))
        await enough.wait()
        group.cancel_scope.cancel()
    assert caplog.messages == ["cannot read metrics, trying on: the database did not answer"]


async def test_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="keeps metrics"):
        OpenTelemetryMetrics("mongodb://localhost")
    with pytest.raises(ConfigurationError, match="interval"):
        await OpenTelemetryMetrics(MemStore()).run(timedelta(0))
