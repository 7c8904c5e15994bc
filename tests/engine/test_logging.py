"""The log: one logger, and the task's id on every line that is about a task."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from gotasks_py import Hooks, Reject, StoreUnavailableError, TaskContext, TaskEvent, TaskPolicy
from tests.engine.world import Ears, FaultyStore, a_manager, failing, orphan, seconds, settled

pytestmark = pytest.mark.anyio

AWAY = StoreUnavailableError("away")


class Troublesome:
    """A manager that logs whatever can be logged about a task."""

    def __init__(self, store: FaultyStore) -> None:
        self.ears = Ears()
        self.manager = a_manager(
            store,
            lease=seconds(2),
            hooks=[Hooks(on_claim=self.angry), self.ears.hooks()],
            backoff=self.bad_backoff,
        )
        self.manager.handler("q", "work")(self.work)

    def angry(self, event: TaskEvent) -> None:
        raise ValueError

    def bad_backoff(self, attempt: int, error: BaseException | None) -> Any:
        raise ValueError

    async def work(self, ctx: TaskContext, kind: str) -> None:
        match kind:
            case "fails" if ctx.attempt == 1:
                raise ValueError
            case "rejects":
                raise Reject("no")
            case "deleted":
                await self.manager.delete(ctx.id)
            case "deaf":
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(60)
            case _:
                ctx.log.info("hello from a handler")


async def test_every_line_about_a_task_carries_its_id(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gotasks_py")
    work = Troublesome(store)
    once = TaskPolicy(max_attempts=1)
    handles = [await work.manager.enqueue("q", "work", "reaped", once)]
    await orphan(store, "q", "work", seconds(1))
    store.before["settle"] = failing(AWAY, times=1)
    store.after["claim"] = failing(AWAY, times=1)
    async with work.manager:
        await settled(store, handles[0].id)
        for kind in ("fine", "fails", "rejects"):
            handles.append(await work.manager.enqueue("q", "work", kind))
            await settled(store, handles[-1].id)
        handles.append(await work.manager.enqueue("q", "work", "deleted"))
        await work.ears.wait("on_lease_lost")
        handles.append(await work.manager.enqueue("q", "work", "deaf"))
        await anyio.sleep(1)
        await work.manager.stop(timeout=1)
    known = {str(handle.id) for handle in handles}
    lines = [record for record in caplog.records if record.name != "asyncio"]
    assert {record.name.partition(".")[0] for record in lines} == {"gotasks_py"}
    told = [each for each in lines if any(task_id in each.getMessage() for task_id in known)]
    assert len(told) >= 8
    assert [r.getMessage() for r in told if r.__dict__.get("task_id") not in known] == []


async def test_a_handlers_own_log_carries_task_queue_type_and_attempt(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gotasks_py")
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, payload: None) -> None:
        ctx.log.info("hello")

    async with manager:
        handle = await manager.enqueue("q", "work")
        await handle.result(timeout=5)
    (record,) = [each for each in caplog.records if each.getMessage() == "hello"]
    told = record.__dict__
    assert record.name == "gotasks_py.task"
    assert (told["task_id"], told["queue"], told["type"], told["attempt"]) == (
        str(handle.id),
        "q",
        "work",
        1,
    )
