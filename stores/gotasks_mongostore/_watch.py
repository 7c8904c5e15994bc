"""The change stream: one per feed, over tasks and queues, of a few scalars for each change."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import Any, Final, TypeVar

import anyio
import pymongo
from pymongo.asynchronous.change_stream import AsyncChangeStream

from gotasks_mongostore._driver import Collections
from gotasks_mongostore._failures import translated
from gotasks_py.errors import StoreError
from gotasks_py.feed import (
    CancelRequested,
    Claimable,
    Event,
    Feed,
    Finished,
    Gap,
    NodeOrdered,
    QueueChanged,
)
from gotasks_py.task import Status, TaskId

T = TypeVar("T")

_QUIET_SECONDS: Final = 10.0
"""How long the server waits for changes before it answers that there are none."""

_GRACE_SECONDS: Final = 5.0
"""How much later than that an answer may come before the stream counts as dead."""

_CLOSING_SECONDS: Final = 1.0
_FINAL: Final = [status.value for status in Status if status.is_final]
_SET: Final = "updateDescription.updatedFields"
_PLACE: Final = ("queue", "lane", "type", "status", "due_at")


def pipeline(tasks: str, queues: str, *, finished: bool) -> list[dict[str, object]]:
    """Choose the changes that are told of, and of each the scalars that tell it.

    The server applies this to its log before anything is sent. A document of 16 MiB is in
    the log when it is inserted; here it is cut to a few fields.
    """
    updates: list[dict[str, object]] = [
        {f"{_SET}.status": {"$in": ["pending", *(_FINAL if finished else [])]}},
        # A claim that is given back without a change of status.
        {f"{_SET}.due_at": {"$exists": True}, "updateDescription.removedFields": "lease"},
        {f"{_SET}.cancel_requested_at": {"$exists": True}},
    ]
    writes = ["insert", "replace"]
    of_tasks: list[dict[str, object]] = [
        {"operationType": {"$in": [*writes, "delete"] if finished else writes}},
        {"operationType": "update", "$or": updates},
    ]
    matched = [
        {"ns.coll": tasks, "$or": of_tasks},
        {"ns.coll": queues, "operationType": {"$in": [*writes, "update", "delete"]}},
    ]
    shown = {
        "operationType": 1,
        "ns.coll": 1,
        "documentKey._id": 1,
        **{f"fullDocument.{name}": 1 for name in _PLACE},
        **{f"{_SET}.{name}": 1 for name in ("status", "due_at", "cancel_requested_at")},
    }
    return [{"$match": {"$or": matched}}, {"$project": shown}]


@asynccontextmanager
async def watch(here: Collections, *, finished: bool, position: object) -> AsyncGenerator[Feed]:
    """Open a change stream, from the moment of now or from a position."""
    with translated("follow changes"), _unhurried():
        start: dict[str, Any]
        if position is None:
            # A stream that Motor opens only when it is first read begins here all the same.
            hello = await here.database.command("hello")
            start = {"start_at_operation_time": hello.get("operationTime")}
        else:
            start = {"resume_after": position}
        opening: Any = here.database.watch(
            pipeline(here.tasks.name, here.queues.name, finished=finished),
            max_await_time_ms=round(_QUIET_SECONDS * 1000),
            **start,
        )
        # Motor's is no awaitable, but its calls are alike.
        stream: AsyncChangeStream[Any] = await opening if inspect.isawaitable(opening) else opening
    feed = _MongoFeed(here, stream, is_new=position is None)
    broke: StoreError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(feed.read)
        try:
            yield feed
        except StoreError as error:
            broke = error  # which the group would wrap
        finally:
            # Closed under its reader, no cursor is left behind. The read itself goes on until
            # there is a change or it has been quiet for its time: nobody should wait for that,
            # least of all who opens the next feed after this one.
            feed.is_left = True
            with suppress(Exception), _hurried():
                await stream.close()
            group.cancel_scope.cancel()
    if broke is not None:
        raise broke


@contextmanager
def _hurried() -> Generator[None]:
    with anyio.move_on_after(_CLOSING_SECONDS, shield=True), pymongo.timeout(_CLOSING_SECONDS):
        yield


def _unhurried() -> AbstractContextManager[object]:
    """Be bound by no time limit but the stream's own."""
    return pymongo.timeout(_QUIET_SECONDS + _GRACE_SECONDS)


class _MongoFeed:
    """Reads ahead in a task of its own, so that waiting for the next changes can be cancelled."""

    def __init__(self, here: Collections, stream: AsyncChangeStream[Any], *, is_new: bool) -> None:
        self.is_left = False
        self._here = here
        self._stream = stream
        self._position: object = None
        self._changes: list[Mapping[str, Any]] = []
        self._is_new = is_new
        self._is_alive = False
        self._error: StoreError | None = None
        self._news = anyio.Event()

    @property
    def position(self) -> object:
        return self._position

    async def next(self) -> Sequence[Event]:
        if self._is_new:
            self._is_new = False
            return (Gap(),)
        while not self._changes and not self._is_alive:
            if self._error is not None:
                raise self._error
            self._news = anyio.Event()
            await self._news.wait()
        changes, position = self._changes, self._stream.resume_token
        self._changes, self._is_alive = [], False
        events = await self._events(changes)
        self._position = position
        return events

    async def read(self) -> None:
        try:
            with translated("follow changes"):
                while True:
                    with _unhurried():
                        change = await self._stream.try_next()
                    if change is not None:
                        self._changes.append(change)
                    elif not self._stream.alive:
                        msg = "the database has ended the change stream"
                        raise StoreError(msg)  # noqa: TRY301  - as the driver's errors
                    self._is_alive = True
                    self._news.set()
        except StoreError as error:
            self._error = error
        except Exception:
            # PyMongo does not reckon with being closed while it reads: where the connection fails
            # as well, it looks for a session that is gone (AttributeError, seen with 4.20).
            if not self.is_left:
                raise
        finally:
            self._news.set()

    async def _events(self, changes: Sequence[Mapping[str, Any]]) -> Sequence[Event]:
        unknown = [change["documentKey"]["_id"] for change in changes if self._is_return(change)]
        places = await self._places(unknown) if unknown else {}
        return [event for change in changes for event in self._events_of(change, places)]

    def _is_return(self, change: Mapping[str, Any]) -> bool:
        """Whether an update made a task claimable; where it lives is not in the log."""
        if change["operationType"] != "update" or change["ns"]["coll"] != self._here.tasks.name:
            return False
        return "due_at" in _updated(change) and _updated(change).get("status") in {None, "pending"}

    async def _places(self, ids: Sequence[TaskId]) -> Mapping[str, Mapping[str, object]]:
        shown = dict.fromkeys(_PLACE, 1)
        with translated("look up tasks that have come back"), _unhurried():
            cursor = self._here.tasks.find({"_id": {"$in": list(ids)}}, shown, hint="_id_")
            # A hand can have made ids that cannot be hashed.
            return {repr(found["_id"]): found for found in await cursor.to_list(None)}

    def _events_of(
        self, change: Mapping[str, Any], places: Mapping[str, Mapping[str, object]]
    ) -> Iterator[Event]:
        task_id, kind = change["documentKey"]["_id"], change["operationType"]
        if change["ns"]["coll"] == self._here.queues.name:
            yield _of_queues(task_id)
            return
        updated = _updated(change)
        document = change.get("fullDocument") or {}
        if kind == "delete" or updated.get("status", document.get("status")) in _FINAL:
            yield Finished(task_id)
        if updated.get("cancel_requested_at") is not None:
            yield CancelRequested(task_id)
        yield from _claimable(task_id, places.get(repr(task_id)) or document)


def _of_queues(changed_id: object) -> Event:
    if isinstance(changed_id, Mapping):
        return NodeOrdered(str(changed_id.get("node")))
    return QueueChanged(str(changed_id))


def _updated(change: Mapping[str, Any]) -> Mapping[str, Any]:
    description = change.get("updateDescription") or {}
    return description.get("updatedFields") or {}


def _claimable(task_id: TaskId, place: Mapping[str, object]) -> Iterator[Event]:
    match place:
        case {
            "status": "pending",
            "queue": str(queue),
            "lane": int(lane),
            "type": str(name),
            "due_at": datetime() as due_at,
        }:
            yield Claimable(task_id, queue, lane, name, due_at)
        case _:
            pass  # it is taken already, or a hand has spoilt it
