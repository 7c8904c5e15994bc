"""The part of the store on MongoDB that finds and mends what no other path would touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from pymongo import ReturnDocument

from gotasks_mongostore import _filters as filters
from gotasks_mongostore import _metrics, _registry
from gotasks_mongostore._part import Part
from gotasks_mongostore._render import render
from gotasks_py.lanes import Lanes
from gotasks_py.lifecycle import reaped, rescued
from gotasks_py.sweeping import Swept
from gotasks_py.task import Task

_PROJECT_ID: Final = {"_id": 1}


class Mending(Part):
    """Finds it by indexes that are empty while all is well."""

    async def reap(self, limit: int) -> Sequence[Task]:
        with self._operations.bounded("look for lapsed leases") as here:
            # There seldom is one, and a look is no write.
            if await here.tasks.find_one(filters.lapsed(), _PROJECT_ID, hint="reap") is None:
                return []
        reaped_tasks: list[Task] = []
        while len(reaped_tasks) < limit:
            with self._operations.bounded("reap a task") as here:
                taken = await here.tasks.find_one_and_update(
                    filters.lapsed(),
                    render(reaped()),
                    sort=[("reap_at", 1)],
                    hint="reap",
                    return_document=ReturnDocument.AFTER,
                )
            if taken is None:
                break
            reaped_tasks.append(Task.from_document(taken))
        return reaped_tasks

    async def stuck(self, limit: int) -> Sequence[Task]:
        await self.reach()
        with self._operations.bounded("look for stuck tasks") as here:
            found = await here.tasks.find(filters.stuck(), hint="stuck", limit=limit).to_list(None)
        return [Task.from_document(each) for each in found]

    async def rescue(self, limit: int) -> Sequence[Task]:
        with self._operations.bounded("look for stuck tasks") as here:
            # There hardly ever is one, and a look is no write.
            if await here.tasks.find_one(filters.stuck(), _PROJECT_ID, hint="stuck") is None:
                return []
        rescued_tasks: list[Task] = []
        while len(rescued_tasks) < limit:
            with self._operations.bounded("rescue a task") as here:
                taken = await here.tasks.find_one_and_update(
                    filters.stuck(),
                    render(rescued()),
                    hint="stuck",
                    return_document=ReturnDocument.AFTER,
                )
            if taken is None:
                break
            self._low_water.note(taken)
            rescued_tasks.append(Task.from_document(taken))
        return rescued_tasks

    async def sweep(self, *, older_than: timedelta, limit: int) -> Swept:
        await self.open()
        orders = await self._forgotten(older_than, limit)
        return Swept(orders=tuple(orders), lanes=await self._widened())

    async def _forgotten(self, older_than: timedelta, limit: int) -> Sequence[str]:
        before = self.clock.now() - older_than
        with self._operations.bounded("forget old orders") as here:
            old = await _registry.old_orders(here.queues, before, limit)
            if not old:
                return []
            there = {node.id for node in await _metrics.nodes(await _metrics.opened(here))}
            gone = [node for node in old if node not in there]
            if gone:
                await _registry.forget_orders(here.queues, gone, before)
        return gone

    async def _widened(self) -> Mapping[str, int]:
        widened: dict[str, int] = {}
        with self._operations.bounded("read the queues") as here:
            recorded = await _registry.recorded(here.queues)
        for name, policy in recorded.items():
            most = Lanes.from_document(policy).most
            with self._operations.bounded("look into lanes beyond those recorded") as here:
                found = await here.tasks.find_one(
                    filters.in_lanes_from(name, most),
                    {"lane": 1},
                    sort=[("lane", -1)],
                    hint="claim",
                )
                lane = None if found is None else found.get("lane")
                if isinstance(lane, int):
                    widened[name] = lane + 1
                    await _registry.widen(here.queues, name, lane + 1)
        return widened
