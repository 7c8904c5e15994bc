"""Mistakes that are easy to make: a typed error, before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import validate_call

from gotasks_memstore import MemStore
from gotasks_py import (
    ConfigurationError,
    Enqueue,
    GotasksError,
    Manager,
    PayloadError,
    QueuePolicy,
    TaskContext,
    TaskPolicy,
)
from tests.engine.world import FaultyStore, a_manager

pytestmark = pytest.mark.anyio


async def test_a_payload_that_is_refused_registers_no_queue(store: FaultyStore) -> None:
    manager = a_manager(store)

    with pytest.raises(PayloadError):
        await manager.enqueue("q", "work", object())

    assert await store.queues() == {}


async def test_a_task_for_the_past_lives_for_its_ttl_from_now(store: FaultyStore) -> None:
    manager = a_manager(store, QueuePolicy("q", ttl=timedelta(days=1)))
    past = TaskPolicy(run_at=datetime(2020, 1, 1, tzinfo=UTC))

    handle = await manager.enqueue("q", "work", 1, past)

    task = await handle.task()
    assert task.run_at == past.run_at
    assert task.expires_at is not None
    assert task.expires_at - store.clock.now() > timedelta(hours=23)


@pytest.mark.parametrize("ttl", [timedelta.max, timedelta(days=10**7), timedelta(-1)])
def test_a_ttl_that_no_date_can_hold_is_refused_at_the_declaration(ttl: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="ttl"):
        QueuePolicy("q", ttl=ttl)


@pytest.mark.parametrize("tags", [5, None, "urgent", (tag for tag in "ab")])
def test_tags_that_are_no_sequence_are_refused(tags: Any) -> None:
    with pytest.raises(ConfigurationError, match="tags must be a sequence of strings"):
        TaskPolicy(tags=tags)


@pytest.mark.parametrize("metadata", [5, None, ["a"], "a"])
def test_metadata_that_is_no_mapping_is_refused(metadata: Any) -> None:
    with pytest.raises(ConfigurationError, match="metadata must be a mapping"):
        TaskPolicy(metadata=metadata)


@pytest.mark.parametrize("store", [5, None, MemStore, "mongodb://localhost"])
def test_what_is_no_store_is_refused(store: Any) -> None:
    with pytest.raises(ConfigurationError, match="store must be a store"):
        Manager(store)


@pytest.mark.parametrize("heartbeat", ["no", None, 1])
def test_a_heartbeat_that_is_no_bool_is_refused(heartbeat: Any) -> None:
    with pytest.raises(ConfigurationError, match="heartbeat must be True or False"):
        Manager(MemStore(), heartbeat=heartbeat)


def as_any(value: object) -> Any:
    return value


CALLS: dict[str, Callable[[Manager], Awaitable[object]]] = {
    "queue": lambda manager: manager.enqueue(as_any(["q"]), "work", 1),
    "requests": lambda manager: manager.enqueue_many(as_any(None)),
    "one request": lambda manager: manager.enqueue_many(as_any(Enqueue("q", "work", 1))),
    "progress": lambda manager: manager.enqueue_many([], progress=as_any(5)),
    "dead": lambda manager: manager.requeue_dead(as_any([])),
}


@pytest.mark.parametrize("name", CALLS)
async def test_arguments_of_another_kind_are_refused(store: FaultyStore, name: str) -> None:
    with pytest.raises(GotasksError, match="must be"):
        await CALLS[name](a_manager(store))

    assert store.all_tasks() == []


@pytest.mark.parametrize("arguments", [{"retry_on": 5}, {"give_up_on": ValueError}])
def test_exceptions_of_another_kind_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="must be a sequence of exception classes"):
        a_manager(MemStore()).handler("q", "work", **arguments)


async def test_validate_call_takes_the_context_as_it_is(store: FaultyStore) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    @validate_call
    async def work(ctx: TaskContext, number: int) -> int:
        return number + ctx.attempt

    async with manager:
        handle = await manager.enqueue("q", "work", 1)
        assert await handle.result(timeout=10) == 2


@pytest.mark.parametrize("grace", ["soon", None, float("nan")])
async def test_a_grace_that_is_no_span_starts_and_stops_nothing(
    store: FaultyStore, grace: Any
) -> None:
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(number: int) -> int:
        return number

    with pytest.raises(ConfigurationError, match="timeout must be"):
        await manager.run(grace)
    assert not manager.health().is_running
    with pytest.raises(ConfigurationError, match="timeout must be"):
        await manager.stop(grace)
    async with manager:
        with pytest.raises(ConfigurationError, match="timeout must be"):
            await manager.stop(grace)
        assert manager.health().is_running
