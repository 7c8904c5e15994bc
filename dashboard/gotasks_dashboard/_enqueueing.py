"""Routes that enqueue tasks, and that say what their payloads look like."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from gotasks_dashboard._acting import IdView, Moment, Seconds, Whole, span
from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import AsWhole, Body, Call, Endpoint, Model, Name, Nothing
from gotasks_dashboard._permissions import Permission
from gotasks_dashboard._values import TagError, untagged
from gotasks_py import ConfigurationError, PayloadError, TaskPolicy
from gotasks_py import backoff as backoffs
from gotasks_py.backoff import Backoff
from gotasks_py.codec import codec_for_value

_LIMIT: Final = 8 * 1024 * 1024


class TaskPolicyBody(Body):
    """How one task is to be treated; what is left out comes from its queue."""

    delay_seconds: Annotated[float, Field(ge=0, le=10**9)] | None = None
    run_at: Moment | None = None
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1), AsWhole] = 0
    unique_key: str | None = None
    tags: list[str] = Field(default=[])
    max_attempts: Whole | None = None
    ttl_seconds: Annotated[float, Field(ge=0, le=10**9)] | None = None
    timeout_seconds: Seconds | None = None
    backoff: Annotated[
        dict[str, Any] | None,
        Field(description='As tasks have it, such as {"kind": "fixed", "delay_ms": 5000}.'),
    ] = None
    retry_until: Moment | None = None
    metadata: dict[str, Any] = Field(default={}, description="An object, with tags as payloads.")

    @field_validator("run_at")
    @classmethod
    def _is_alone(cls, value: datetime | None, info: ValidationInfo) -> datetime | None:
        if value is not None and info.data.get("delay_seconds") is not None:
            raise PydanticCustomError("unfit", "give run_at or delay_seconds, not both")
        return value

    @field_validator("unique_key", "tags", "backoff", "metadata")
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401  - of any of them
        """Refuse each by itself, so that all that is wrong is told at once."""
        name = info.field_name or ""
        try:
            given: dict[str, Any] = {name: _READERS.get(name, _as_it_is)(value)}
            TaskPolicy(**given)
        except TagError as error:
            raise PydanticCustomError(
                "unfit", "{why}", {"why": str(error), "path": error.path}
            ) from error
        except (ConfigurationError, ValueError, RecursionError) as error:
            raise PydanticCustomError("unfit", "{why}", {"why": str(error)}) from error
        return value


class PayloadBody(Body):
    """A payload of a type of task."""

    queue: Name
    type: Name
    payload: Any = Field(default=None, description="JSON, with tags for what JSON would lose.")


class EnqueueBody(PayloadBody):
    """A task."""

    policy: TaskPolicyBody = TaskPolicyBody()


class TypeQuery(Model):
    """Which type of task."""

    queue: Name
    type: Name


class OkView(TypedDict):
    """It would be taken."""

    ok: bool


class SchemaView(TypedDict):
    """What payloads of a type look like; without a schema any JSON will do."""

    queue: str
    type: str
    schema: Mapping[str, object] | None
    description: str | None


async def enqueue(desk: Desk, call: Call[Nothing, EnqueueBody]) -> IdView:
    """Enqueue a task."""
    body = call.body
    target = {"queue": body.queue, "type": body.type}
    async with desk.acting(call.access, "enqueue", target, **_options(desk, body.policy)) as learnt:
        payload = _payload(desk, body)
        manager = await desk.manager_of(body.queue)
        policy = _policy(body.policy)
        task_type = desk.types.get((body.queue, body.type))
        if task_type is None:
            handle = await manager.enqueue(body.queue, body.type, payload, policy)
        else:
            handle = await manager.enqueue(task_type, payload, policy)
        learnt["task"] = str(handle.id)
    return {"id": str(handle.id)}


async def validate(desk: Desk, call: Call[Nothing, EnqueueBody]) -> OkView:
    """Tell whether a payload fits its type and can be stored, and whether the policy can be."""
    payload = _payload(desk, call.body)
    task_type = desk.types.get((call.body.queue, call.body.type))
    codec = codec_for_value(payload) if task_type is None else task_type.payload_codec
    codec.encode(payload, limit=_LIMIT)
    _policy(call.body.policy)
    return {"ok": True}


async def schema(desk: Desk, call: Call[TypeQuery, Nothing]) -> SchemaView:
    """Tell what payloads of a type look like."""
    query = call.query
    found = schema_of(desk, query.queue, query.type)
    said = None if found is None else found.get("description")
    return {
        "queue": query.queue,
        "type": query.type,
        "schema": found,
        "description": said if isinstance(said, str) else None,
    }


def schema_of(desk: Desk, queue: str, name: str) -> Mapping[str, object] | None:
    """Tell the JSON schema of a type's payload, if it is known here."""
    task_type = desk.types.get((queue, name))
    return None if task_type is None else task_type.payload_codec.json_schema()


def _options(desk: Desk, policy: TaskPolicyBody) -> Mapping[str, object]:
    """Tell the audit how a task is to be treated: nothing that only some may see of it."""
    hidden = {"metadata"} if desk.settings.redact is None else {"metadata", "tags", "unique_key"}
    given = policy.model_dump(mode="json", exclude_unset=True, exclude=hidden)
    if given.get("backoff") is not None:
        given["backoff"] = json.dumps(given["backoff"])  # which may have names that no store keeps
    return given


def _payload(desk: Desk, body: PayloadBody) -> Any:  # noqa: ANN401  - of any type
    try:
        plain = untagged(body.payload)
    except TagError as error:
        raise PayloadError(str(error), path=error.path) from error
    except RecursionError as error:
        raise PayloadError(str(error)) from error
    task_type = desk.types.get((body.queue, body.type))
    return plain if task_type is None else task_type.payload_codec.parse(plain)


def _policy(body: TaskPolicyBody) -> TaskPolicy:
    return TaskPolicy(
        delay=None if body.delay_seconds is None else timedelta(seconds=body.delay_seconds),
        run_at=body.run_at,
        priority=body.priority,
        unique_key=body.unique_key,
        tags=tuple(body.tags),
        max_attempts=body.max_attempts,
        ttl=span(body.ttl_seconds),
        timeout=span(body.timeout_seconds),
        backoff=_backoff(body.backoff),
        retry_until=body.retry_until,
        metadata=_plain(body.metadata),
    )


def _backoff(document: Mapping[str, Any] | None) -> Backoff | None:
    if document is None:
        return None
    found = backoffs.from_document(_plain(document))
    if found is None:
        msg = (
            "its kind is fixed, linear, exponential or fibonacci, and the rest as tasks have it, "
            'such as {"kind": "fixed", "delay_ms": 5000}'
        )
        raise ValueError(msg)
    return found


def _plain(given: Mapping[str, Any]) -> Mapping[str, object]:
    plain = untagged(dict(given))
    if not isinstance(plain, dict):
        msg = "an object is needed"
        raise ValueError(msg)  # noqa: TRY004  - what it was sent as is one
    return plain


def _as_it_is(value: object) -> object:
    return value


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {"backoff": _backoff, "metadata": _plain}
"""What makes of an option what a policy has."""

ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="tasks",
        summary="Enqueue a task",
        handle=enqueue,
        permissions=(Permission.ENQUEUE,),
        body=EnqueueBody,
        answer=IdView,
        status=201,
    ),
    Endpoint(
        method="POST",
        path="tasks/validate",
        summary="Tell whether a task could be enqueued",
        handle=validate,
        permissions=(Permission.ENQUEUE,),
        body=EnqueueBody,
        answer=OkView,
    ),
    Endpoint(
        method="GET",
        path="schema",
        summary="What payloads of a type look like",
        handle=schema,
        query=TypeQuery,
        answer=SchemaView,
    ),
)
