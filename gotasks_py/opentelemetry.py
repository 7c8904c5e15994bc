"""For OpenTelemetry: a span for each enqueue and each attempt, linked through the task.

Needs the extra ``gotasks-py[opentelemetry]``; which SDK and exporter take the spans is for the
program to say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, TracerProvider

from gotasks_py.context import TaskContext
from gotasks_py.errors import TaskSignal

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
