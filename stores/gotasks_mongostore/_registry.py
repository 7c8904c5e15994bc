"""The recorded policy of each queue, and what operators have decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError

from gotasks_mongostore._driver import Document
from gotasks_mongostore._indexes import Index
from gotasks_py.controls import NodeOrder, QueueChanges
from gotasks_py.policy import QueuePolicy

INDEXES: Final = (
    # Orders to managers, which are gone some day; their ids are never used again.
    Index(
        "ttl",
        (("expires_at", 1),),
        {
            "expireAfterSeconds": 0,
            "partialFilterExpression": {"expires_at": {"$exists": True}},
        },
    ),
)
# Queues and orders share a collection, and so its feed; the index on ids tells them apart.
OF_QUEUES: Final = {"_id": {"$gte": ""}}
OF_NODES: Final = {"_id": {"$gte": {"node": ""}}}
_ORDERS: Final = {each.value: each for each in NodeOrder}
_TOUCHED: Final = {"$currentDate": {"updated_at": True}}


async def register(queues: AsyncCollection[Document], policy: QueuePolicy) -> Mapping[str, object]:
    recorded = await _first_declared(queues, policy.name, policy.recorded_after(None))
    policy.refuse_conflict(recorded)
    return recorded


async def replace(queues: AsyncCollection[Document], policy: QueuePolicy) -> None:
    """Record other values: what ``QueuePolicy.recorded_after`` says, in one write."""
    update = {
        "$set": policy.registered(),
        "$max": {"most_lanes": policy.lanes},
        "$setOnInsert": {"keyed_lanes": policy.lanes},
        "$currentDate": {"updated_at": True},
    }
    await queues.update_one({"_id": policy.name}, update, upsert=True)


async def recorded(queues: AsyncCollection[Document]) -> Mapping[str, Mapping[str, object]]:
    found = await queues.find(OF_QUEUES).to_list(None)
    return {
        str(document["_id"]): {
            name: value for name, value in document.items() if name not in {"_id", "updated_at"}
        }
        for document in found
    }


async def set_pause(
    queues: AsyncCollection[Document], name: str, until: datetime | None, by: str | None
) -> bool:
    given = {"until": until, "by": by}
    shown = {key: {"$literal": value} for key, value in given.items() if value is not None}
    # A plain document would be merged into the pause before it.
    pause = {"$mergeObjects": [{"at": "$$NOW", **shown}]}
    return await _change(queues, name, [{"$set": {"pause": pause, "updated_at": "$$NOW"}}])


async def end_pause(queues: AsyncCollection[Document], name: str) -> bool:
    return await _change(queues, name, {"$unset": {"pause": True}, **_TOUCHED})


async def set_changes(
    queues: AsyncCollection[Document], name: str, changes: QueueChanges | None
) -> bool:
    if changes is None:
        return await _change(queues, name, {"$unset": {"changes": True}, **_TOUCHED})
    given = {f"changes.{key}": value for key, value in changes.to_document().items()}
    update: dict[str, object] = {"$set": given, **_TOUCHED} if given else {**_TOUCHED}
    if changes.lanes is not None:  # which claims have to cover for ever
        update["$max"] = {"most_lanes": changes.lanes}
    return await _change(queues, name, update)


async def forget(queues: AsyncCollection[Document], name: str) -> bool:
    return bool((await queues.delete_one({"_id": name})).deleted_count)


async def set_order(
    queues: AsyncCollection[Document], node: str, order: NodeOrder | None, until: datetime
) -> None:
    """Record what a manager is to do. Its id says that it is no queue."""
    if order is None:
        await queues.delete_one({"_id": {"node": node}})
        return
    await queues.update_one(
        {"_id": {"node": node}},
        {"$set": {"order": order.value, "expires_at": until}, **_TOUCHED},
        upsert=True,
    )


async def orders(queues: AsyncCollection[Document]) -> Mapping[str, NodeOrder]:
    found = await queues.find(OF_NODES).to_list(None)
    return {
        str(document["_id"].get("node")): _ORDERS[order]
        for document in found
        if isinstance(document["_id"], dict)
        and isinstance(order := document.get("order"), str)
        and order in _ORDERS
    }


async def old_orders(
    queues: AsyncCollection[Document], before: datetime, limit: int
) -> Sequence[str]:
    """Tell which managers have an order from before a time, a bounded number of them."""
    found = (
        await queues.find({**OF_NODES, "updated_at": {"$lt": before}}).limit(limit).to_list(None)
    )
    return [
        node
        for document in found
        if isinstance(document["_id"], dict)
        and isinstance(node := document["_id"].get("node"), str)
    ]


async def forget_orders(
    queues: AsyncCollection[Document], nodes: Sequence[str], before: datetime
) -> None:
    """Forget orders, but not those that were given since."""
    ids = [{"node": node} for node in nodes]
    await queues.delete_many({"_id": {"$in": ids}, "updated_at": {"$lt": before}})


async def widen(queues: AsyncCollection[Document], name: str, lanes: int) -> None:
    """Record that there may be tasks in so many lanes."""
    await queues.update_one({"_id": name}, {"$max": {"most_lanes": lanes}, **_TOUCHED})


async def _change(
    queues: AsyncCollection[Document],
    name: str,
    update: Mapping[str, object] | Sequence[Mapping[str, object]],
) -> bool:
    return bool((await queues.update_one({"_id": name}, update)).matched_count)


async def _first_declared(
    queues: AsyncCollection[Document], name: str, declared: Mapping[str, object]
) -> Mapping[str, object]:
    found = await queues.find_one({"_id": name})
    if found is not None:
        return found
    try:
        found = await queues.find_one_and_update(
            {"_id": name},
            {"$setOnInsert": declared, "$currentDate": {"updated_at": True}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
    except DuplicateKeyError:  # another process inserted between the look and the write
        found = await queues.find_one({"_id": name})
    return found or declared
