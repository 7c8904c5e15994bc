"""For OpenTelemetry: spans of enqueues and attempts, linked through the task; and metrics.

Needs the extra ``gotasks-py[opentelemetry]``; which SDK and exporter take spans and metrics is
for the program to say.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import anyio
from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, TracerProvider

from gotasks_py._totals import StoreTotals
from gotasks_py.checks import LONGEST, check_duration
from gotasks_py.context import TaskContext
from gotasks_py.errors import StoreError, TaskSignal
from gotasks_py.metrics import COUNTERS, Gauges
from gotasks_py.nodes import Node
from gotasks_py.sketch import LatencySketch

logger = logging.getLogger("gotasks_py.opentelemetry")

_QUANTILES: Final = (0.5, 0.95, 0.99)
_SYSTEM: Final = "gotasks"


class OpenTelemetryTracing:
    """Traces tasks: ``Manager(..., tracing=OpenTelemetryTracing())``.

    An enqueue is a span of kind producer, a child of whatever span is current; its context is
    stored in the task's ``trace``. Each attempt is a span of kind consumer in a trace of its
    own, linked to that: a task may run days later, and more than once.

    ``provider`` is where spans come from; default: the global one.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("gotasks_py", tracer_provider=provider)

    def carried(self, queue: str, type: str) -> Mapping[str, str]:
        """Make the span of an enqueue, and tell what of it travels with the task."""
        attributes = {**_about(queue, type), "messaging.operation.type": "send"}
        with self._tracer.start_as_current_span(
            f"send {queue}", kind=SpanKind.PRODUCER, attributes=attributes
        ):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
        return carrier

    async def around(
        self, context: TaskContext, call_next: Callable[[], Awaitable[object]]
    ) -> object:
        """Run an attempt in a span, which is current for the handler."""
        task = context.task
        attributes: dict[str, str | int] = {
            **_about(task.queue, task.type),
            "messaging.operation.type": "process",
            "messaging.message.id": str(task.id),
            "gotasks.attempt": task.attempts,
        }
        with self._tracer.start_as_current_span(
            f"process {task.queue}",
            context=trace.set_span_in_context(trace.INVALID_SPAN),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=_links(task.trace),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await call_next()
            except TaskSignal as signal:  # the handler steers, and nothing is wrong
                span.set_attribute("gotasks.signal", type(signal).__name__)
                raise
            except Exception as error:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise


class OpenTelemetryMetrics:
    """Passes on what a store tells of all managers: one process that does so is enough.

    Counters begin at zero when this is made, and rise with what all managers write. What an
    exporter collects is what ``await refresh()`` has read last; ``await run()`` does that
    again and again.

    ``provider`` is where instruments come from; default: the global one.

    Raises:
        ConfigurationError: the store keeps no metrics.
    """

    def __init__(self, store: object, provider: MeterProvider | None = None) -> None:
        self._totals = StoreTotals(store)
        meter = metrics.get_meter("gotasks_py", meter_provider=provider)
        meter.create_observable_counter(
            "gotasks.events", [self._events], "{event}", "What happened to tasks."
        )
        for name, meaning in _LATENCIES.items():
            observe = partial(self._latency, name)
            meter.create_observable_gauge(f"gotasks.{name}", [observe], "s", meaning)
        for name, (unit, meaning, value) in _OF_QUEUES.items():
            observe = partial(self._of_queues, value)
            meter.create_observable_gauge(f"gotasks.queue.{name}", [observe], unit, meaning)
        meter.create_observable_gauge(
            "gotasks.queue.tasks", [self._tasks], "{task}", "How many tasks there are."
        )
        for name, (unit, meaning, count) in _OF_NODES.items():
            observe = partial(self._of_nodes, count)
            meter.create_observable_gauge(f"gotasks.{name}", [observe], unit, meaning)

    async def refresh(self) -> None:
        """Read what is new.

        Raises:
            StoreError: the database refused, or did not answer.
        """
        await self._totals.refresh()

    async def run(self, interval: timedelta = timedelta(seconds=10)) -> None:
        """Read what is new every ``interval``, until cancelled; outages are logged and outlasted.

        Raises:
            ConfigurationError: the interval is no span of 100 ms or more.
        """
        shortest = timedelta(milliseconds=100)
        check_duration("interval", interval, minimum=shortest, maximum=LONGEST)
        is_failing = False
        while True:
            try:
                await self.refresh()
            except StoreError as error:
                if not is_failing:
                    logger.warning("cannot read metrics, trying on: %s", error)
                is_failing = True
            else:
                is_failing = False
            await anyio.sleep(interval.total_seconds())

    def _events(self, _options: CallbackOptions) -> Iterator[Observation]:
        for (queue, name), activity in self._totals.totals().items():
            for event in COUNTERS:
                about = {"queue": queue, "type": name, "event": event}
                yield Observation(getattr(activity.counters, event), about)

    def _latency(self, latency: str, _options: CallbackOptions) -> Iterator[Observation]:
        for (queue, name), activity in self._totals.recent().items():
            sketch: LatencySketch = getattr(activity, latency)
            for quantile in _QUANTILES:
                value = sketch.quantile(quantile)
                if value is not None:
                    about = {"queue": queue, "type": name, "quantile": str(quantile)}
                    yield Observation(value.total_seconds(), about)

    def _tasks(self, _options: CallbackOptions) -> Iterator[Observation]:
        for queue, gauges in self._totals.gauges.items():
            for status, count in gauges.counts.items():
                yield Observation(count, {"queue": queue, "status": status.value})

    def _of_queues(
        self, value: Callable[[Gauges], float], _options: CallbackOptions
    ) -> Iterator[Observation]:
        for queue, gauges in self._totals.gauges.items():
            yield Observation(value(gauges), {"queue": queue})

    def _of_nodes(
        self, count: Callable[[Sequence[Node]], int], _options: CallbackOptions
    ) -> Iterator[Observation]:
        yield Observation(count(self._totals.nodes))


_LATENCIES: Final = {
    "wait": "From the moment a task is due until it is claimed; of the last ten minutes.",
    "run": "How long handlers ran; of the last ten minutes.",
    "end_to_end": "From the enqueue of a task to its success; of the last ten minutes.",
}
_OF_QUEUES: Final[Mapping[str, tuple[str, str, Callable[[Gauges], float]]]] = {
    "oldest_due_age": (
        "s",
        "For how long the first task in line has been due.",
        lambda gauges: gauges.oldest_due_age.total_seconds(),
    ),
    "paused": ("1", "Whether the queue is paused.", lambda gauges: int(gauges.is_paused)),
    "wanted_workers": (
        "{worker}",
        "How many workers would keep waits as short as is wanted.",
        lambda gauges: gauges.wanted_workers,
    ),
}
_OF_NODES: Final[Mapping[str, tuple[str, str, Callable[[Sequence[Node]], int]]]] = {
    "nodes": ("{manager}", "How many managers run.", len),
    "workers": (
        "{worker}",
        "How many tasks all managers can run at once.",
        lambda nodes: sum(node.capacity for node in nodes),
    ),
    "workers.busy": (
        "{worker}",
        "How many tasks all managers are running.",
        lambda nodes: sum(node.running for node in nodes),
    ),
}


def _about(queue: str, type: str) -> Mapping[str, str]:
    return {
        "messaging.system": _SYSTEM,
        "messaging.destination.name": queue,
        "gotasks.type": type,
    }


def _links(carrier: Mapping[str, object] | None) -> list[Link]:
    texts = {name: value for name, value in (carrier or {}).items() if isinstance(value, str)}
    sent = trace.get_current_span(propagate.extract(texts)).get_span_context()
    return [Link(sent)] if sent.is_valid else []
