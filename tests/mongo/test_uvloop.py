"""Managers on uvloop's event loop, for those who ask anyio for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import to_thread

from gotasks_memstore import MemStore
from gotasks_py import Enqueue, Manager, PipelineMode, QueuePolicy, TaskContext
from gotasks_py.errors import TaskCancelledError
from gotasks_py.store import Store
from tests.conftest import KINDS, a_lab

pytest.importorskip("uvloop")
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(params=[KINDS[0], *(pytest.param(k, marks=pytest.mark.mongo) for k in KINDS[1:])])
async def store(request: pytest.FixtureRequest, anyio_backend: object) -> AsyncIterator[Store]:
    if request.param == "memstore":
        yield MemStore()
        return
    async with a_lab(request, request.param) as lab:
        yield lab.store


@pytest.mark.parametrize("mode", [None, PipelineMode()])
async def test_a_manager_does_on_uvloop_what_it_does_elsewhere(
    store: Store, mode: PipelineMode | None
) -> None:
    assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    manager = Manager(store, queues=[QueuePolicy("q")], workers=4, mode=mode)
    started = anyio.Event()

    @manager.handler("q", "double")
    async def double(number: int) -> int:
        return 2 * number

    @manager.handler("q", "halve")
    def halve(number: int) -> int:
        return number // 2

    @manager.handler("q", "wait")
    async def wait(ctx: TaskContext, payload: None) -> None:
        started.set()
        await anyio.sleep_forever()

    async with manager:
        handles = await manager.enqueue_many(
            Enqueue("q", name, number) for number in range(5) for name in ("double", "halve")
        )
        results = [await handle.result(timeout=20) for handle in handles]
        assert results == [each for number in range(5) for each in (2 * number, number // 2)]
        twin = await to_thread.run_sync(partial(manager.sync.enqueue, "q", "double", 21))
        assert await to_thread.run_sync(partial(twin.result, timeout=20)) == 42
        waiting = await manager.enqueue("q", "wait")
        await started.wait()
        await manager.cancel(waiting.id)
        with pytest.raises(TaskCancelledError):
            await waiting.result(timeout=20)
