"""Spans from the enqueue to the attempts, linked through the stored task."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from gotasks_memstore import MemStore
from gotasks_py import Enqueue, Fixed, Manager, QueuePolicy, Snooze
from gotasks_py.opentelemetry import OpenTelemetryTracing

pytestmark = pytest.mark.anyio


class World:
    """A traced manager in memory, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.store = MemStore()
        self.manager = Manager(
            self.store,
            queues=[QueuePolicy("q")],
            tracing=OpenTelemetryTracing(self.provider),
            backoff=Fixed(),
        )

    def spans(self, kind: SpanKind) -> Sequence[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]


@pytest.fixture
def world() -> World:
    return World()


def id_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def test_an_attempt_is_linked_to_the_enqueue(world: World) -> None:
    seen: list[int] = []

    @world.manager.handler("q", "t")
    async def handle(payload: int) -> int:
        seen.append(get_current_span().get_span_context().span_id)
        return payload

    with world.provider.get_tracer("web").start_as_current_span("request") as request:
        handle_of_task = await world.manager.enqueue("q", "t", 1)
    async with world.manager:
        assert await handle_of_task.result(timeout=5) == 1
    (sent,) = world.spans(SpanKind.PRODUCER)
    (ran,) = world.spans(SpanKind.CONSUMER)
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert [(link.context.trace_id, link.context.span_id) for link in ran.links] == [id_of(sent)]
    assert ran.parent is None
    assert seen == [id_of(ran)[1]]
    assert ran.attributes is not None
    assert ran.attributes["messaging.message.id"] == str(handle_of_task.id)
    assert ran.attributes["gotasks.attempt"] == 1
    assert ran.status.status_code is StatusCode.UNSET


async def test_a_failure_is_recorded_and_each_attempt_is_linked(world: World) -> None:
    @world.manager.handler("q", "t", backoff=Fixed(delay=Fixed().delay * 0))
    async def fail_first(payload: None) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("no")

    attempts: list[int] = []
    task = await world.manager.enqueue("q", "t")
    async with world.manager:
        await task.result(timeout=10)
    (sent,) = world.spans(SpanKind.PRODUCER)
    first, second = world.spans(SpanKind.CONSUMER)
    assert first.status.status_code is StatusCode.ERROR
    assert [event.name for event in first.events] == ["exception"]
    assert second.status.status_code is StatusCode.UNSET
    for span in (first, second):
        assert span.links[0].context.span_id == id_of(sent)[1]


async def test_a_handler_that_steers_has_not_failed(world: World) -> None:
    @world.manager.handler("q", "t")
    async def put_off(payload: None) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise Snooze(Fixed().delay * 0)

    attempts: list[int] = []
    task = await world.manager.enqueue("q", "t")
    async with world.manager:
        await task.result(timeout=10)
    first, _ = world.spans(SpanKind.CONSUMER)
    assert first.status.status_code is StatusCode.UNSET
    assert first.attributes is not None
    assert first.attributes["gotasks.signal"] == "Snooze"


async def test_tasks_that_are_enqueued_together_carry_a_trace(world: World) -> None:
    handles = await world.manager.enqueue_many([Enqueue("q", "t")] * 3)
    tasks = [await world.manager.get(handle.id) for handle in handles]
    assert all(task.trace and "traceparent" in task.trace for task in tasks)


async def test_a_spoilt_trace_is_no_link(world: World) -> None:
    @world.manager.handler("q", "t")
    async def handle(payload: None) -> None: ...

    plain = Manager(world.store, queues=[QueuePolicy("q")])
    await plain.enqueue("q", "t")
    document = next(iter(world.store._documents))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    document["trace"] = {"traceparent": "nonsense", "tracestate": 7}
    async with world.manager:
        await (await world.manager.handle(document["_id"])).result(timeout=5)
    (ran,) = world.spans(SpanKind.CONSUMER)
    assert list(ran.links) == []


async def test_a_tracing_that_fails_keeps_no_task_away(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> dict[str, str]:
        raise RuntimeError

    tracing = OpenTelemetryTracing(world.provider)
    monkeypatch.setattr(tracing, "carried", fail)
    manager = Manager(world.store, queues=[QueuePolicy("q")], tracing=tracing)
    handle = await manager.enqueue("q", "t")
    assert (await manager.get(handle.id)).trace is None
    assert "tracing failed" in caplog.text
