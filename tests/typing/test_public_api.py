"""The types of the public API, as mypy and pyright see them.

Nothing here needs to run: the checkers do the asserting. An expected error is a pair of
ignores, and an ignore that is not needed is itself an error.
"""

from __future__ import annotations

from typing import Any, assert_type

from pydantic import BaseModel

from gotasks_memstore import MemStore
from gotasks_py import (
    Handler,
    Manager,
    QueuePolicy,
    SyncTaskHandle,
    TaskContext,
    TaskHandle,
    TaskPolicy,
    TaskType,
)


class Email(BaseModel):
    to: str


class Receipt(BaseModel):
    number: int


EMAIL = TaskType("emails", "send", Email, Receipt)
NOTE = TaskType("emails", "note", Email)
LOG = TaskType("emails", "log", str, None)

assert_type(EMAIL, TaskType[Email, Receipt])
assert_type(NOTE, TaskType[Email, Any])
assert_type(LOG, TaskType[str, None])

manager = Manager(MemStore(), queues=[QueuePolicy("emails")])


@manager.handler("emails", "payload")
async def payload_only(payload: Email) -> Receipt:
    return Receipt(number=len(payload.to))


@manager.handler("emails", "context")
async def with_context(ctx: TaskContext, payload: Email) -> Receipt:
    return Receipt(number=ctx.attempt)


@manager.handler("emails", "sync")
def sync(payload: int) -> str:
    return str(payload)


@manager.handler("emails", "sync_context")
def sync_with_context(ctx: TaskContext, payload: int) -> str:
    return str(payload + ctx.attempt)


@manager.handler("emails", "nothing")
async def nothing() -> int:
    return 1


@manager.handler(EMAIL)
async def declared(payload: Email) -> Receipt:
    return Receipt(number=len(payload.to))


@manager.handler(LOG)
async def declared_with_context(ctx: TaskContext, payload: str) -> None: ...


assert_type(payload_only, Handler[Email, Receipt])
assert_type(with_context, Handler[Email, Receipt])
assert_type(sync, Handler[int, str])
assert_type(sync_with_context, Handler[int, str])
assert_type(nothing, Handler[None, int])
assert_type(declared, Handler[Email, Receipt])
assert_type(declared_with_context, Handler[str, None])


async def enqueue() -> None:
    email = Email(to="a@b.c")
    assert_type(await payload_only.enqueue(email), TaskHandle[Receipt])
    assert_type(await (await payload_only.enqueue(email)).result(timeout=1), Receipt)
    assert_type(await sync.enqueue(5, TaskPolicy(priority=1)), TaskHandle[str])
    assert_type(await nothing.enqueue(None), TaskHandle[int])
    assert_type(await manager.enqueue(EMAIL, email), TaskHandle[Receipt])
    assert_type(await manager.enqueue(EMAIL, email, TaskPolicy()), TaskHandle[Receipt])
    assert_type(await manager.enqueue(LOG, "x", on_conflict="return"), TaskHandle[None])
    assert_type(await manager.enqueue("emails", "send", email), TaskHandle[Any])
    assert_type(await manager.enqueue("emails", "send", email, TaskPolicy()), TaskHandle[Any])


def enqueue_from_sync_code() -> None:
    assert_type(manager.sync.enqueue(EMAIL, Email(to="")), SyncTaskHandle[Receipt])
    assert_type(manager.sync.enqueue(EMAIL, Email(to="")).result(), Receipt)
    assert_type(manager.sync.enqueue("emails", "send", 1), SyncTaskHandle[Any])


async def wrong_payloads() -> None:
    await payload_only.enqueue(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await manager.enqueue(EMAIL, 5)  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await manager.enqueue("emails", "send", 1, "policy")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await manager.enqueue("emails", "send", 1, on_conflict="no")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def wrong_handlers() -> None:
    @manager.handler(EMAIL)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async def wrong_payload(payload: int) -> Receipt:
        return Receipt(number=payload)

    @manager.handler(EMAIL)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async def wrong_result(payload: Email) -> str:
        return payload.to


def test_the_handlers_above_are_registered() -> None:
    assert EMAIL.queue == declared.task_type.queue
    assert declared.task_type is EMAIL
