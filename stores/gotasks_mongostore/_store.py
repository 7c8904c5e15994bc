"""The store on MongoDB: one document per task, one write per change."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Final

import pymongo
from bson import ObjectId
from bson.errors import InvalidId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from gotasks_mongostore import _filters as filters
from gotasks_mongostore import _inserts, _watch
from gotasks_mongostore._audit import Audit
from gotasks_mongostore._claims import Claims
from gotasks_mongostore._clock import ServerClock
from gotasks_mongostore._control import Control
from gotasks_mongostore._diagnosis import Diagnosis
from gotasks_mongostore._driver import Client, Collections, Connection
from gotasks_mongostore._failures import translated
from gotasks_mongostore._indexes import ensure_indexes
from gotasks_mongostore._inspection import Inspection
from gotasks_mongostore._leases import Leases
from gotasks_mongostore._low_water import LowWater, by_place
from gotasks_mongostore._measuring import Survey
from gotasks_mongostore._mending import Mending
from gotasks_mongostore._meters import Meters
from gotasks_mongostore._operations import Operations
from gotasks_mongostore._render import render
from gotasks_mongostore._server import check_server
from gotasks_mongostore._transactions import check_session, transaction
from gotasks_mongostore._urls import parts_of
from gotasks_py.auditing import Auditing
from gotasks_py.checks import check_duration, check_name
from gotasks_py.clock import Clock
from gotasks_py.controls import Controlling
from gotasks_py.diagnosis import Diagnosing, Finding, Measurements, Measuring
from gotasks_py.errors import (
    ConfigurationError,
    DuplicateTaskError,
    GotasksError,
    StoreError,
    TaskNotFoundError,
)
from gotasks_py.feed import Feed
from gotasks_py.inspecting import Inspecting, Tagging
from gotasks_py.lifecycle import Patch
from gotasks_py.metering import Metering
from gotasks_py.store import (
    ClaimRequest,
    Reachable,
    Session,
    Store,
    TaskDocument,
    Watching,
)
from gotasks_py.sweeping import Sweeping
from gotasks_py.task import Task, TaskId

_PROJECT_ID: Final = {"_id": 1}


class MongoStore(Leases, Control, Inspection, Mending, Meters, Audit):
    """Keeps tasks in a MongoDB collection, one document each.

    ``client`` is a ``pymongo.AsyncMongoClient``, a Motor ``AsyncIOMotorClient`` (MongoDB
    ended Motor's life on 14 May 2026; prefer PyMongo's) or a URI. A store made from a URI
    may be used from several event loops and after a fork; one made from a client belongs
    to the loop and process that the client is first used in. Tasks live in the collection
    ``namespace``, queue policies in ``{namespace}_queues``, metrics and the registry of
    managers in ``{namespace}_metrics``, who did what in ``{namespace}_audit``. Majority read
    and write concern and primary reads are pinned, whatever the URI says.

    ``operation_timeout`` bounds each operation, retries included; default 20 s.

    Raises:
        ConfigurationError: another kind of client, an illegal name, a time out of bounds.
    """

    def __init__(
        self,
        client: Client | str,
        *,
        database: str,
        namespace: str = "tasks",
        operation_timeout: timedelta = timedelta(seconds=20),
    ) -> None:
        check_name("database name", database)
        check_name("namespace", namespace)
        check_duration("operation_timeout", operation_timeout, minimum=timedelta(milliseconds=10))
        self._connection = Connection(client, database, namespace)
        self._operations = Operations(self._connection, operation_timeout)
        self._server_clock = ServerClock()
        self._low_water = LowWater(self._server_clock.monotonic, self._server_clock.now)
        self._claims = Claims(self._operations.retried, self._server_clock.now, self._low_water)

    @classmethod
    async def connect(
        cls,
        uri: str,
        *,
        database: str,
        namespace: str = "tasks",
        operation_timeout: timedelta = timedelta(seconds=20),
    ) -> MongoStore:
        """Make a store from a URI and open it.

        Raises:
            ConfigurationError: the URI cannot be read, or the server is older than 5.0.
            StoreUnavailableError: no server answered within the URI's
                ``serverSelectionTimeoutMS`` or ``operation_timeout``.
            StorePermissionError: the login was refused, or the user may not do what opening
                takes; a user who may read but not write is refused at the first write.
        """
        store = cls(
            uri, database=database, namespace=namespace, operation_timeout=operation_timeout
        )
        try:
            await store.open()
        except BaseException:
            await store.aclose()
            raise
        return store

    @classmethod
    def from_url(cls, url: str) -> MongoStore:
        """Make a store from MongoDB's own URI and what the store needs beside it.

        ``mongodb://host/DATABASE?replicaSet=rs0&namespace=tasks``; users are looked up in
        ``DATABASE`` unless ``authSource`` names another one, as the driver does.

        Raises:
            ConfigurationError: there is no database in it, or an illegal name.
        """
        uri, database, namespace = parts_of(url)
        return cls(uri, database=database, namespace="tasks" if namespace is None else namespace)

    @property
    def clock(self) -> Clock:
        return self._server_clock

    def new_id(self) -> TaskId:
        return ObjectId()

    def parse_id(self, value: object) -> TaskId:
        try:
            return value if isinstance(value, ObjectId) else ObjectId(str(value))
        except InvalidId:
            raise TaskNotFoundError(value) from None

    async def open(self) -> None:
        await self.reach()
        here = self._connection.collections()
        if here.is_open:
            return
        async with here.opening:
            if not here.is_open:
                with self._operations.bounded("ensure the indexes"):
                    await ensure_indexes(here.database, here.tasks)
                    here.is_open = True

    async def reach(self) -> None:
        here = self._connection.collections()
        if here.is_reached and not self._server_clock.is_stale:
            return
        async with here.opening:
            if not here.is_reached:
                here.has_transactions = check_server(await self._hello())
                here.is_reached = True
            elif self._server_clock.is_stale:
                await self._hello()

    async def diagnose(self) -> Sequence[Finding]:
        await self._hello()  # which waits for a server no longer than the URI says
        return await Diagnosis(self._operations.bounded).run()

    async def measure(self) -> Measurements:
        await self.reach()
        return await Survey(self._operations.bounded).run()

    async def aclose(self) -> None:
        await self._connection.aclose()

    def watch(
        self, *, finished: bool, position: object = None
    ) -> AbstractAsyncContextManager[Feed] | None:
        here = self._connection.collections()
        if not here.has_transactions:  # nor change streams
            return None
        return _watch.watch(here, finished=finished, position=position)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Session]:
        await self.open()
        here = self._connection.collections()
        if not here.has_transactions:
            msg = "transactions need a replica set or a sharded cluster; this server is neither"
            raise ConfigurationError(msg)
        async with transaction(here.database.client, self._operations.seconds) as session:
            yield session

    async def insert(self, document: TaskDocument, *, session: Session | None = None) -> None:
        async def store(here: Collections) -> None:
            check_session(session, here.database.client)
            await _inserts.insert(here.tasks, document, session)

        await self._operations.repeatable(
            "insert the task",
            store,
            task_id=document["_id"],
            only_once=session is not None or _inserts.is_at_most_once(document),
        )
        self._low_water.note(document)

    async def insert_many(self, documents: Sequence[TaskDocument]) -> Mapping[int, GotasksError]:
        if not documents:  # which the driver refuses
            return {}
        refused, unclear = await self._operations.repeatable(
            "insert tasks",
            lambda here: _inserts.insert_many(here.tasks, documents),
            only_once=any(map(_inserts.is_at_most_once, documents)),
        )
        for document in by_place(documents):
            self._low_water.note(document)
        if unclear is None:
            return refused
        stored: frozenset[TaskId] = frozenset()
        # An operation of its own: the time of the other one may be used up.
        with suppress(StoreError), self._operations.bounded("look for tasks") as here:
            stored = await _inserts.stored_of(here.tasks, documents)
        return {**_inserts.missing(documents, stored, unclear), **refused}

    async def claim(self, request: ClaimRequest) -> Task | None:
        if self._server_clock.is_stale:
            await self.reach()
        return await self._claims.one(request)

    async def claim_many(self, request: ClaimRequest, limit: int) -> Sequence[Task]:
        if self._server_clock.is_stale:
            await self.reach()
        return await self._claims.many(request, limit)

    async def find_claimed(self, request: ClaimRequest) -> Sequence[Task]:
        return await self._claims.taken_under(request)

    async def next_due(
        self, queue: str, types: Sequence[str], lanes: Sequence[int] = (0,)
    ) -> datetime | None:
        return await self._claims.next_due(queue, types, lanes)

    async def get(self, task_id: TaskId) -> Task | None:
        found = await self._operations.repeatable(
            "read a task", lambda here: here.tasks.find_one({"_id": task_id})
        )
        return None if found is None else Task.from_document(found)

    async def transition(self, task_id: TaskId, patch: Patch) -> Task | None:
        try:
            with self._operations.bounded("change a task") as here:
                changed = await here.tasks.find_one_and_update(
                    filters.in_source_of(patch, task_id),
                    render(patch),
                    hint="_id_",
                    return_document=ReturnDocument.AFTER,
                )
        except StoreError as error:
            if isinstance(error.__cause__, DuplicateKeyError):
                await self._raise_duplicate(task_id)
            raise
        if changed is None:
            return None
        self._low_water.note(changed)
        return Task.from_document(changed)

    async def delete(self, task_id: TaskId) -> bool:
        with self._operations.bounded("delete a task") as here:
            deleted = await here.tasks.delete_one({"_id": task_id})
        return bool(deleted.deleted_count)

    async def dead_ids(self, *, queue: str | None, type: str | None) -> AsyncIterator[TaskId]:
        tasks = self._connection.collections().tasks
        # Not bounded as a whole: a long list is read as slowly as its reader works on it.
        with translated("list dead letters"):
            async for document in tasks.find(
                filters.dead(queue, type), _PROJECT_ID, hint="dead", batch_size=500
            ):
                yield document["_id"]

    async def _hello(self) -> Mapping[str, object]:
        with (
            self._operations.bounded("reach the server") as here,
            pymongo.timeout(here.patience_seconds),
        ):
            return await self._server_clock.refresh(lambda: here.database.command("hello"))

    async def _raise_duplicate(self, task_id: TaskId) -> None:
        task = await self.get(task_id)
        if task is None or task.unique_key is None:
            return
        wanted = {"queue": task.queue, "lane": task.lane, "unique_key": task.unique_key}
        with self._operations.bounded("look up the unique key") as here:
            holder = await _inserts.holder_of(here.tasks, wanted)
        raise DuplicateTaskError(task.queue, task.unique_key, holder)


_: type[Store] = MongoStore
_reachable: type[Reachable] = MongoStore
_watching: type[Watching] = MongoStore
_diagnosing: type[Diagnosing] = MongoStore
_measuring: type[Measuring] = MongoStore
_metering: type[Metering] = MongoStore
_inspecting: type[Inspecting] = MongoStore
_tagging: type[Tagging] = MongoStore
_controlling: type[Controlling] = MongoStore
_sweeping: type[Sweeping] = MongoStore
_auditing: type[Auditing] = MongoStore
