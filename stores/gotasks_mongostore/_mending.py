"""The part of the store on MongoDB that finds and mends what no other path would touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from pymongo import ReturnDocument

from gotasks_mongostore import _filters as filters
from gotasks_mongostore import _metrics, _registry
from gotasks_mongostore._part import Part
from gotasks_mongostore._render import render
from gotasks_py.lanes import Lanes
from gotasks_py.lifecycle import Patch, reaped, rescued
from gotasks_py.sweeping import Swept
from gotasks_py.task import Task

_PROJECT_ID: Final = {"_id": 1}
_REAPED: Final = {"hint": "reap", "sort": [("reap_at", 1)]}
_RESCUED: Final = {"hint": "stuck"}


class Mending(Part):
    """Finds it by indexes that are empty while all is well."""

    async def reap(self, limit: int) -> Sequence[Task]:
        return await self._mended("reap", _REAPED, filters.lapsed(), reaped(), limit)

    async def stuck(self, limit: int) -> Sequence[Task]:
        await self.reach()
        with self._operations.bounded("look for stuck tasks") as here:
            found = await here.tasks.find(filters.stuck(), hint="stuck", limit=limit).to_list(None)
        return [Task.from_document(each) for each in found]

    async def rescue(self, limit: int) -> Sequence[Task]:
        return await self._mended("rescue", _RESCUED, filters.stuck(), rescued(), limit)

    async def _mended(
        self,
        verb: str,
        order: Mapping[str, Any],
        matched: filters.Filter,
        patch: Patch,
        limit: int,
    ) -> Sequence[Task]:
        """Change one by one what there hardly ever is."""
        with self._operations.bounded(f"look for tasks to {verb}") as here:
            # A look is no write.
            if await here.tasks.find_one(matched, _PROJECT_ID, hint=order["hint"]) is None:
                return []
        mended: list[Task] = []
        while len(mended) < limit:
            with self._operations.bounded(f"{verb} a task") as here:
                taken = await here.tasks.find_one_and_update(
                    matched,
                    render(patch),
                    return_document=ReturnDocument.AFTER,
                    **order,
                )
            if taken is None:
                break
            self._low_water.note(taken)
            mended.append(Task.from_document(taken))
        return mended

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
