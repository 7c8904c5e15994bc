"""What a manager does when it is told of changes in the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, assert_never

import anyio

from gotasks_py._orders import Orders
from gotasks_py._pool import Pool
from gotasks_py._recorded import RecordedQueues
from gotasks_py._running import RunningTasks, StopReason
from gotasks_py._wakeup import Hub
from gotasks_py.feed import (
    CancelRequested,
    Claimable,
    Event,
    Finished,
    Gap,
    NodeOrdered,
    QueueChanged,
)
from gotasks_py.task import TaskId

_MOST_REMEMBERED: Final = 10_000
_BUSY_SECONDS: Final = 1.0
"""How long nobody may have waited for work until nobody listens for it."""


async def listen(hub: Hub, listener: ManagerListener, _pools: Sequence[Pool]) -> None:
    """Listen until cancelled."""
    with hub.listening(listener):
        await anyio.sleep_forever()


async def listen_while_idle(hub: Hub, listener: ManagerListener, pools: Sequence[Pool]) -> None:
    """Listen until cancelled, but not while all pools are busy.

    The server reads each change that it writes for those who follow it: 50 µs a task,
    a quarter of what a drain in batches costs it. Whoever is busy has work anyhow.
    """
    while True:
        async with anyio.create_task_group() as group:
            for pool in pools:
                group.start_soon(_cancel_when_idle, pool, group.cancel_scope)
        with hub.listening(listener):
            listener.heard(Gap())
            await _all_busy(pools)
        listener.stream_changed(is_connected=False)


async def _all_busy(pools: Sequence[Pool]) -> None:
    waits, before = sum(pool.room.waits for pool in pools), -1
    while waits != before or any(pool.room.is_idle for pool in pools):
        await anyio.sleep(_BUSY_SECONDS)
        before, waits = waits, sum(pool.room.waits for pool in pools)


async def _cancel_when_idle(pool: Pool, scope: anyio.CancelScope) -> None:
    await pool.room.idle()
    scope.cancel()


class ManagerListener:
    """Wakes the pools of one manager, and stops its tasks.

    Work that the manager itself enqueued is heard of twice, from the client and from the
    feed, in either order; only the first time counts.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        running: RunningTasks,
        queues: RecordedQueues,
        orders: Orders,
    ) -> None:
        self._pools = pools
        self._queues = queues
        self._orders = orders
        self._running = running
        self._is_connected = False
        self._heard: dict[TaskId, tuple[datetime, bool]] = {}

    def stream_changed(self, *, is_connected: bool) -> None:
        """Poll seldom while changes are told of."""
        self._is_connected = is_connected
        self._heard.clear()
        self._queues.set_told(value=is_connected)
        self._orders.set_told(value=is_connected)
        for pool in self._pools:
            pool.set_streaming(value=is_connected)

    def enqueued(self, queue: str, due_at: datetime | None, ids: Sequence[TaskId]) -> None:
        """Wake a worker for what this manager's own client has made claimable."""
        if due_at is not None and ids:
            heard = [self._is_heard(each, due_at, from_feed=False) for each in ids]
            if all(heard):
                return
        for pool in self._pools:
            pool.nudge(queue, due_at)

    def heard(self, event: Event) -> None:
        """Wake a worker, or stop a handler."""
        match event:
            case Claimable():
                self._claimable(event)
            case CancelRequested(id=task_id):
                self._cancel(task_id)
            case QueueChanged(queue=queue):
                self._recheck(queue)
            case NodeOrdered(node=node):
                self._orders.ordered(node)
            case Gap():
                self._look_everywhere()
            case Finished():
                pass
            case _:
                assert_never(event)

    def _claimable(self, task: Claimable) -> None:
        if self._is_heard(task.id, task.due_at, from_feed=True):
            return
        for pool in self._pools:
            pool.call(task)

    def _cancel(self, task_id: TaskId) -> None:
        if running := self._running.find(task_id):
            running.stop(StopReason.CANCELLED)

    def _recheck(self, queue: str) -> None:
        if queue in self._queues.declared:
            self._queues.recheck()

    def _look_everywhere(self) -> None:
        self._queues.recheck()
        self._orders.recheck()
        for pool in self._pools:
            pool.look()

    def _is_heard(self, task_id: TaskId, due_at: datetime, *, from_feed: bool) -> bool:
        """Tell whether the other source has told of this already."""
        if not self._is_connected:
            return False
        if self._heard.get(task_id) == (due_at, not from_feed):
            del self._heard[task_id]
            return True
        self._heard[task_id] = (due_at, from_feed)
        if len(self._heard) > _MOST_REMEMBERED:
            del self._heard[next(iter(self._heard))]
        return False
