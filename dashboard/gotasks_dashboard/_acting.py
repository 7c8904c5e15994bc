"""Routes that change one task, queue or manager."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import AsWhole, Body, Call, Endpoint, Model, Name, Nothing
from gotasks_dashboard._permissions import Permission
from gotasks_dashboard._problems import Problem
from gotasks_dashboard._values import moment
from gotasks_dashboard._views import TaskRow, row_of

_MOST_SECONDS: Final = 10**9
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")

Seconds: TypeAlias = Annotated[float, Field(ge=0.001, le=_MOST_SECONDS)]


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        msg = "in UTC this lies beyond the years 1 to 9999"
        raise ValueError(msg) from error


def _as_date(value: object) -> object:
    # Pydantic takes numbers, as such or in a text, for seconds since 1970.
    if value is not None and not (isinstance(value, str) and _DATE.match(value)):
        raise PydanticCustomError("moment", "a time such as 2026-01-31T12:00:00Z is needed")
    return value


Moment: TypeAlias = Annotated[
    AwareDatetime, Field(strict=False), AfterValidator(_in_utc), BeforeValidator(_as_date)
]
Whole: TypeAlias = Annotated[int, Field(ge=1, le=2**31 - 1), AsWhole]


def _some_of_it(schema: dict[str, Any]) -> None:
    """Say that nothing at all, and null, change nothing."""
    schema["minProperties"] = 1
    for name, shape in schema["properties"].items():
        (given,) = (each for each in shape["anyOf"] if each.get("type") != "null")
        schema["properties"][name] = given


class RequeueBody(Body):
    """How a dead letter is brought back."""

    fresh_lifetime: bool = False


class QueueBody(Body):
    """Which queue."""

    queue: Name


class PauseBody(QueueBody):
    """Which queue to pause; without an end it stays so until it is resumed."""

    until: Moment | None = None
    for_seconds: Seconds | None = None


class ChangesBody(Body):
    """What of a queue's policy is to be another than declared; a lifetime of 0 is for ever."""

    model_config = ConfigDict(json_schema_extra=_some_of_it)

    weight: Whole | None = None
    workers: Whole | None = None
    lanes: Whole | None = None
    timeout_seconds: Seconds | None = None
    ttl_seconds: Annotated[float, Field(ge=0, le=_MOST_SECONDS)] | None = None
    max_attempts: Whole | None = None


class PolicyBody(QueueBody):
    """Which queue, and what to change of its policy."""

    changes: ChangesBody


class NodeBody(Body):
    """Which manager."""

    node: Name


class IdView(TypedDict):
    """Which task it was."""

    id: str


class QueueNameView(TypedDict):
    """Which queue it was."""

    queue: str


class NodeNameView(TypedDict):
    """Which manager it was."""

    node: str


async def requeue(desk: Desk, call: Call[Nothing, RequeueBody]) -> TaskRow:
    """Bring a dead letter back."""
    task_id, fresh = call.path["id"], call.body.fresh_lifetime
    details = {"fresh_lifetime": True} if fresh else {}
    async with desk.acting(call.access, "requeue", {"task": task_id}, **details):
        task = await desk.manager.requeue(task_id, fresh_lifetime=fresh)
    return row_of(desk.shown(task))


async def cancel(desk: Desk, call: Call[Nothing, Nothing]) -> TaskRow:
    """Cancel a task."""
    async with desk.acting(call.access, "cancel", {"task": call.path["id"]}):
        task = await desk.manager.cancel(call.path["id"])
    return row_of(desk.shown(task))


async def delete(desk: Desk, call: Call[Nothing, Nothing]) -> IdView:
    """Delete a task."""
    async with desk.acting(call.access, "delete", {"task": call.path["id"]}):
        await desk.manager.delete(call.path["id"])
    return {"id": call.path["id"]}


async def pause(desk: Desk, call: Call[Nothing, PauseBody]) -> QueueNameView:
    """Let nobody claim from a queue."""
    body = call.body
    if body.until is not None and body.for_seconds is not None:
        raise Problem(400, "bad_request", "give until or for_seconds, not both")
    until = body.until if body.for_seconds is None else span(body.for_seconds)
    details = {"until": moment(body.until), "for_seconds": body.for_seconds}
    async with desk.acting(call.access, "pause", {"queue": body.queue}, **details):
        await desk.manager.pause(body.queue, until=until, by=call.access.user)
    return {"queue": body.queue}


async def resume(desk: Desk, call: Call[Nothing, QueueBody]) -> QueueNameView:
    """Let a queue be claimed from again."""
    async with desk.acting(call.access, "resume", {"queue": call.body.queue}):
        await desk.manager.resume(call.body.queue)
    return {"queue": call.body.queue}


async def change_policy(desk: Desk, call: Call[Nothing, PolicyBody]) -> QueueNameView:
    """Change what is given of a queue's policy."""
    changes = call.body.changes
    given = changes.model_dump(exclude_unset=True)
    if None in given.values():
        detail = "null changes nothing: a lifetime of 0 is for ever; a reset takes changes back"
        raise Problem(400, "bad_request", detail)
    if not given:
        raise Problem(400, "bad_request", "changes says what is to be another than declared")
    async with desk.acting(call.access, "change_policy", {"queue": call.body.queue}, **given):
        await desk.manager.set_queue_policy(
            call.body.queue,
            weight=changes.weight,
            workers=changes.workers,
            lanes=changes.lanes,
            timeout=span(changes.timeout_seconds),
            ttl=span(changes.ttl_seconds),
            max_attempts=changes.max_attempts,
        )
    return {"queue": call.body.queue}


async def reset_policy(desk: Desk, call: Call[Nothing, QueueBody]) -> QueueNameView:
    """Let a queue's policy be as declared again."""
    async with desk.acting(call.access, "reset_policy", {"queue": call.body.queue}):
        await desk.manager.reset_queue_policy(call.body.queue)
    return {"queue": call.body.queue}


def _ordering(order: str) -> Callable[[Desk, Call[Any, Any]], Awaitable[NodeNameView]]:
    async def give(desk: Desk, call: Call[Nothing, NodeBody]) -> NodeNameView:
        node = call.body.node
        orders = {
            "quiet": desk.manager.quiet_node,
            "drain": desk.manager.drain_node,
            "wake": desk.manager.wake_node,
        }
        async with desk.acting(call.access, order, {"node": node}):
            if node not in {each.id for each in await desk.nodes()}:
                raise Problem(404, "unknown_node", f"there is no manager {node!r}")
            await orders[order](node)
        return {"node": node}

    return give


def span(seconds: float | None) -> timedelta | None:
    """Read a length of time."""
    return None if seconds is None else timedelta(seconds=seconds)


def _post(
    path: str,
    summary: str,
    handle: Callable[[Desk, Call[Any, Any]], Awaitable[object]],
    permission: Permission,
    answer: Any,  # noqa: ANN401  - a type
    body: type[Model] = Nothing,
) -> Endpoint:
    return Endpoint(
        method="POST",
        path=path,
        summary=summary,
        handle=handle,
        permissions=(permission,),
        answer=answer,
        body=body,
    )


_QUEUES: Final = Permission.EDIT_QUEUES
_NODES: Final = Permission.CONTROL_NODES

ENDPOINTS: Final = (
    _post(
        "tasks/{id}/requeue",
        "Bring a dead letter back",
        requeue,
        Permission.REQUEUE,
        TaskRow,
        RequeueBody,
    ),
    _post("tasks/{id}/cancel", "Cancel a task", cancel, Permission.CANCEL, TaskRow),
    _post("tasks/{id}/delete", "Delete a task", delete, Permission.DELETE, IdView),
    _post("queues/pause", "Pause a queue", pause, _QUEUES, QueueNameView, PauseBody),
    _post("queues/resume", "Resume a queue", resume, _QUEUES, QueueNameView, QueueBody),
    _post(
        "queues/policy",
        "Change a queue's policy",
        change_policy,
        _QUEUES,
        QueueNameView,
        PolicyBody,
    ),
    _post(
        "queues/policy/reset",
        "Let a queue's policy be as declared",
        reset_policy,
        _QUEUES,
        QueueNameView,
        QueueBody,
    ),
    *(
        _post(f"nodes/{order}", summary, _ordering(order), _NODES, NodeNameView, NodeBody)
        for order, summary in (
            ("quiet", "Let a manager claim nothing more"),
            ("drain", "Let a manager finish what it runs, and stop"),
            ("wake", "Let a manager claim again"),
        )
    ),
)
