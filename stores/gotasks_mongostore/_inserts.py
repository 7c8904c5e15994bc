"""Inserting tasks so that a lost reply is never mistaken for a duplicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from gotasks_mongostore._driver import Document
from gotasks_mongostore._failures import failure, is_passing, translated
from gotasks_mongostore._filters import key_holder
from gotasks_py.errors import DuplicateTaskError, GotasksError, StoreError, StoreUnavailableError
from gotasks_py.store import Session, TaskDocument
from gotasks_py.task import TaskId

_DUPLICATE_KEY: Final = 11000
_CHUNK: Final = 1000
# The holder of a key may finish between the refused insert and the look for it.
_KEY_TRIES: Final = 5


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


def chunks(documents: Sequence[TaskDocument]) -> Iterator[range]:
    """Cut a bulk insert into ranges of one command each."""
    for start in range(0, len(documents), _CHUNK):
        yield range(start, min(start + _CHUNK, len(documents)))


def is_outage(refused: Mapping[int, GotasksError], chunk: range) -> bool:
    """Whether nothing of a chunk arrived because the database is away."""
    return len(refused) == len(chunk) and all(
        isinstance(error, StoreUnavailableError) for error in refused.values()
    )


def not_sent(indexes: range) -> Mapping[int, GotasksError]:
    """Tell of tasks that were not tried after an outage: they do not exist."""
    return {
        index: StoreUnavailableError("not sent: the database was away for the tasks before it")
        for index in indexes
    }


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


async def insert_chunk(
    tasks: AsyncCollection[Document], chunk: Sequence[TaskDocument]
) -> Mapping[int, GotasksError]:
    try:
        await tasks.insert_many(chunk, ordered=False)
    except BulkWriteError as error:
        refused = await _refused(tasks, chunk, error)
        if error.details.get("writeConcernErrors"):
            return {**await _missing(tasks, chunk, error), **refused}
        return refused
    except PyMongoError as error:
        return await _missing(tasks, chunk, error)
    return {}


async def _refused(
    tasks: AsyncCollection[Document], chunk: Sequence[TaskDocument], error: BulkWriteError
) -> Mapping[int, GotasksError]:
    refused: dict[int, GotasksError] = {}
    for each in error.details.get("writeErrors", ()):
        index = each["index"]
        if each.get("code") != _DUPLICATE_KEY:
            refused[index] = StoreError(f"the database refused the task: {each.get('errmsg')}")
            continue
        try:
            # On its own it is told apart: the task itself, a held key, or a key free again.
            with translated("insert the task", task_id=chunk[index]["_id"]):
                await insert(tasks, chunk[index])
        except GotasksError as reason:
            refused[index] = reason
    return refused


async def _missing(
    tasks: AsyncCollection[Document], chunk: Sequence[TaskDocument], error: PyMongoError
) -> Mapping[int, GotasksError]:
    """Tell which tasks of an unclear write are not there; all, if that cannot be known."""
    stored: set[TaskId] = set()
    if is_passing(error):
        try:
            ids = [document["_id"] for document in chunk]
            found = await tasks.find({"_id": {"$in": ids}}, {"_id": 1}).to_list(None)
            stored = {document["_id"] for document in found}
        except PyMongoError:
            stored = set()
    return {
        index: failure("insert the task", error, task_id=document["_id"])
        for index, document in enumerate(chunk)
        if document["_id"] not in stored
    }
