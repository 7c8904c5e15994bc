"""The recorded policy of each queue."""

from __future__ import annotations

from collections.abc import Mapping

from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError

from gotasks_mongostore._driver import Document
from gotasks_py.policy import QueuePolicy


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
    found = await queues.find({}).to_list(None)
    return {
        str(document["_id"]): {
            name: value for name, value in document.items() if name not in {"_id", "updated_at"}
        }
        for document in found
    }


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
