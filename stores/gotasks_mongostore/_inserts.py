"""Inserting tasks so that a lost reply is never mistaken for a duplicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError, WriteError

from gotasks_mongostore._driver import Document
from gotasks_mongostore._failures import failure, translated
from gotasks_mongostore._filters import key_holder, key_holders
from gotasks_py.errors import DuplicateTaskError, GotasksError
from gotasks_py.store import Session, TaskDocument
from gotasks_py.task import TaskId

_DUPLICATE_KEY: Final = 11000
# The holder of a key may finish between the refused insert and the look for it.
_KEY_TRIES: Final = 5


def is_at_most_once(document: TaskDocument) -> bool:
    """Whether a task must not be stored once more on suspicion.

    Its id keeps it from being there twice, but not from coming back after it was stored, run
    and deleted.
    """
    return document.get("max_attempts") == 1


async def insert(
    tasks: AsyncCollection[Document], document: TaskDocument, session: Session | None = None
) -> None:
    # A duplicate aborts a transaction, so there nothing can be tried again.
    for _ in range(_KEY_TRIES if session is None else 1):
        try:
            await tasks.insert_one(document, session=session)
        except DuplicateKeyError:
            pass
        else:
            return
        if await _settled_duplicate(tasks, document):
            return
    raise DuplicateTaskError(str(document["queue"]), str(document["unique_key"]), None)


async def holder_of(
    tasks: AsyncCollection[Document], document: Mapping[str, object]
) -> TaskId | None:
    """Tell which active task holds the document's unique key."""
    found = await tasks.find_one(key_holder(document), {"_id": 1}, hint="unique")
    return None if found is None else found["_id"]


async def _settled_duplicate(tasks: AsyncCollection[Document], document: TaskDocument) -> bool:
    """Tell whether a duplicate key is the task itself; ``False``: the key is free again.

    Raises:
        DuplicateTaskError: another task holds the unique key.
    """
    if await tasks.find_one({"_id": document["_id"]}, {"_id": 1}) is not None:
        return True
    holder = await holder_of(tasks, document)
    if holder is None:
        return False
    raise DuplicateTaskError(str(document["queue"]), str(document["unique_key"]), holder)


async def insert_many(
    tasks: AsyncCollection[Document], documents: Sequence[TaskDocument]
) -> tuple[Mapping[int, GotasksError], PyMongoError | None]:
    """Insert many; tell what was refused, and why the rest is unclear if it is."""
    try:
        await tasks.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        refused = await _refused(tasks, documents, error)
        return refused, error if error.details.get("writeConcernErrors") else None
    except PyMongoError as error:
        return {}, error
    return {}, None


async def stored_of(
    tasks: AsyncCollection[Document], documents: Sequence[TaskDocument]
) -> frozenset[TaskId]:
    """Tell which of the documents are there."""
    ids = [document["_id"] for document in documents]
    found = await tasks.find({"_id": {"$in": ids}}, {"_id": 1}).to_list(None)
    return frozenset(document["_id"] for document in found)


def missing(
    documents: Sequence[TaskDocument], stored: frozenset[TaskId], error: PyMongoError
) -> Mapping[int, GotasksError]:
    """Tell what an unclear write has not stored."""
    return {
        index: failure("insert the task", error, task_id=document["_id"])
        for index, document in enumerate(documents)
        if document["_id"] not in stored
    }


async def _refused(
    tasks: AsyncCollection[Document], documents: Sequence[TaskDocument], error: BulkWriteError
) -> Mapping[int, GotasksError]:
    refused: dict[int, GotasksError] = {}
    doubles: dict[int, TaskDocument] = {}
    for each in error.details.get("writeErrors", ()):
        index = each["index"]
        if each.get("code") == _DUPLICATE_KEY:
            doubles[index] = documents[index]
            continue
        cause = WriteError(str(each.get("errmsg")), each.get("code"), each)
        refused[index] = failure("insert the task", cause, task_id=documents[index]["_id"])
    return {**refused, **await _refused_doubles(tasks, doubles)}


async def _refused_doubles(
    tasks: AsyncCollection[Document], doubles: Mapping[int, TaskDocument]
) -> Mapping[int, GotasksError]:
    """Tell apart what the server calls a duplicate: the task itself, or that its key is held."""
    if not doubles:
        return {}
    refused: dict[int, GotasksError] = {}
    try:
        with translated("look up unique keys"):
            ours = await stored_of(tasks, list(doubles.values()))
            holders = await _holders_of(tasks, doubles.values())
    except GotasksError as reason:
        return dict.fromkeys(doubles, reason)
    for index, document in doubles.items():
        if document["_id"] in ours:
            continue
        queue, _, key = place = _place_of(document)
        holder = holders.get(place)
        if holder is not None:
            refused[index] = DuplicateTaskError(str(queue), str(key), holder)
            continue
        try:  # the key may be free again
            with translated("insert the task", task_id=document["_id"]):
                await insert(tasks, document)
        except GotasksError as reason:
            refused[index] = reason
    return refused


async def _holders_of(
    tasks: AsyncCollection[Document], documents: Iterable[TaskDocument]
) -> Mapping[tuple[object, ...], TaskId]:
    """Tell which active tasks hold the documents' keys, in a round trip for each lane."""
    keys: dict[tuple[object, object], set[object]] = {}
    for document in documents:
        queue, lane, key = _place_of(document)
        keys.setdefault((queue, lane), set()).add(key)
    holders: dict[tuple[object, ...], TaskId] = {}
    for (queue, lane), wanted in keys.items():
        ours = key_holders(queue, lane, list(wanted))
        async for found in tasks.find(ours, {"unique_key": 1}, hint="unique"):
            key = found["unique_key"]
            if isinstance(key, str):  # a hand may have written several
                holders[queue, lane, key] = found["_id"]
    return holders


def _place_of(document: TaskDocument) -> tuple[object, object, object]:
    return document.get("queue"), document.get("lane"), document.get("unique_key")
