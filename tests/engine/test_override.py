"""What a deployment decides about a manager that its program has made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio.lowlevel
import pytest

from gotasks_py import (
    ConfigurationError,
    Enqueue,
    HandlerError,
    Manager,
    PipelineMode,
    Status,
    StoreUnavailableError,
    UnknownQueueError,
)
from tests.engine.world import FaultyStore, a_manager, settled

pytestmark = pytest.mark.anyio


def two_queues(store: FaultyStore) -> Manager:
    manager = a_manager(store, "first", "second", workers=3)

    async def work() -> None:
        await anyio.lowlevel.checkpoint()

    manager.handler("first", "work")(work)
    manager.handler("second", "work")(work)
    return manager


async def test_a_manager_works_on_the_named_queues_alone(store: FaultyStore) -> None:
    manager = two_queues(store)
    manager.override(queues=["second"])
    async with manager:
        left = await manager.enqueue("first", "work")
        done = await manager.enqueue("second", "work")
        await settled(store, done.id)
        await anyio.sleep(60)
        assert (await left.task()).status is Status.PENDING
    assert (await done.task()).status is Status.DONE


async def test_the_number_of_workers_is_overridden(store: FaultyStore) -> None:
    manager = two_queues(store)
    manager.override(workers=5)
    async with manager:
        assert manager.health().workers == 5


async def test_what_is_left_out_stays(store: FaultyStore) -> None:
    manager = two_queues(store)
    manager.override(queues=["first"])
    manager.override(workers=2)
    async with manager:
        left = await manager.enqueue("second", "work")
        await anyio.sleep(60)
        assert (await left.task()).status is Status.PENDING
        assert manager.health().workers == 2


@pytest.mark.parametrize("mode", [None, PipelineMode()])
async def test_no_more_tasks_are_claimed_than_allowed(
    store: FaultyStore, mode: PipelineMode | None
) -> None:
    manager = a_manager(store, "first", "second", workers=8, mode=mode)

    async def work() -> None:
        await anyio.sleep(1)

    for queue in ("first", "second"):
        manager.handler(queue, "work")(work)
        await manager.enqueue_many([Enqueue(queue, "work")] * 20)
    # An answer that is lost counts, too: of the claim, or of the question what came of it.
    lost = {"claims": 2, "questions": 1}

    def lose(what: str) -> Callable[..., object]:
        def fault(*arguments: object) -> None:
            if lost[what]:
                lost[what] -= 1
                raise StoreUnavailableError("lost")

        return fault

    for name in ("claim", "claim_many"):
        store.after[name] = lose("claims")
    store.before["find_claimed"] = lose("questions")
    manager.override(max_tasks=13)
    async with manager:
        await anyio.sleep(600)
        assert manager.health().claimed_tasks == 13
        tasks = store.all_tasks()
        assert sum(task.status is Status.DONE for task in tasks) == 13
        assert sum(task.attempts for task in tasks) == 13
        waits = store.calls["claim"] + store.calls["claim_many"]
        await anyio.sleep(600)
        assert store.calls["claim"] + store.calls["claim_many"] == waits
    async with manager:  # which another run has anew
        await anyio.sleep(60)
        assert sum(task.attempts for task in store.all_tasks()) == 26


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"queues": ["third"]}, UnknownQueueError, "'third'"),
        ({"queues": []}, ConfigurationError, "must name a queue"),
        ({"workers": 0}, ConfigurationError, "workers must be a whole number"),
        ({"workers": True}, ConfigurationError, "workers must be a whole number"),
        ({"max_tasks": 0}, ConfigurationError, "max_tasks must be a whole number"),
    ],
)
async def test_a_wrong_override_changes_nothing(
    store: FaultyStore, settings: Any, error: type[Exception], says: str
) -> None:
    manager = two_queues(store)
    with pytest.raises(error, match=says):
        manager.override(**settings)
    async with manager:
        assert manager.health().workers == 3


async def test_a_running_manager_is_not_overridden(store: FaultyStore) -> None:
    async with two_queues(store) as manager:
        with pytest.raises(ConfigurationError, match="is running"):
            manager.override(workers=1)


async def test_queues_without_a_handler_leave_nothing_to_run(store: FaultyStore) -> None:
    manager = a_manager(store, "first", "second")
    manager.handler("first", "work")(lambda: None)
    manager.override(queues=["second"])
    with pytest.raises(HandlerError, match="nothing to run"):
        await manager.start()


async def test_a_manager_tells_the_types_that_it_handles(store: FaultyStore) -> None:
    manager = two_queues(store)
    manager.handler("first", "more")(lambda: None)
    assert manager.types("first") == ("more", "work")
    assert manager.types("nowhere") == ()
