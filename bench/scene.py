"""What the benchmarks share: the database, a task that does nothing, and the raw driver."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

from bson import ObjectId
from bson.codec_options import CodecOptions
from pydantic import BaseModel
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from gotasks_mongostore import MongoStore
from gotasks_py import Manager, PipelineMode, QueuePolicy, TaskType

Document = dict[str, Any]
Collection = AsyncCollection[Document]

DATABASE: Final = "gotasks_bench"
QUEUE: Final = "bench"
_CODEC: Final = CodecOptions[Document](tz_aware=True, tzinfo=UTC)


class Note(BaseModel):
    """The payload: small and flat, as most are."""

    to: str
    subject: str
    number: int


NOTE: Final = TaskType(QUEUE, "note", Note, None)
A_NOTE: Final = Note(to="a@example.com", subject="hello", number=1)


@dataclass(frozen=True, slots=True)
class Scene:
    """A database to measure on, and how long to."""

    uri: str
    client: AsyncMongoClient[Document]
    quick: bool
    _namespaces: count[int] = field(default_factory=count)

    @property
    def rounds(self) -> int:
        """How often everything is measured."""
        return 1 if self.quick else 5

    def scaled(self, number: int) -> int:
        """Tell how many to do: fewer for a smoke run."""
        return max(1, number // 100) if self.quick else number

    @asynccontextmanager
    async def collection(self) -> AsyncGenerator[Collection]:
        """Make a collection of its own, without any index, and no store on it."""
        tasks = self._collection(f"bare_{next(self._namespaces)}")
        try:
            yield tasks
        finally:
            await tasks.drop()

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[tuple[MongoStore, Collection]]:
        """Make a store on collections of its own, and show the raw one under it."""
        namespace = f"tasks_{next(self._namespaces)}"
        tasks = self._collection(namespace)
        store = await MongoStore.connect(self.uri, database=DATABASE, namespace=namespace)
        try:
            yield store, tasks
        finally:
            await store.aclose()
            await tasks.drop()
            await tasks.database[f"{namespace}_queues"].drop()

    def _collection(self, name: str) -> Collection:
        return self.client.get_database(DATABASE, _CODEC).get_collection(
            name,
            write_concern=WriteConcern("majority"),
            read_concern=ReadConcern("majority"),
        )


def manager(
    store: MongoStore,
    *,
    workers: int = 1,
    poll: float = 1.0,
    mode: PipelineMode | None = None,
    lanes: int = 1,
    queue: str = QUEUE,
) -> Manager:
    """Make a manager of the one queue, with the defaults that users get."""
    return Manager(
        store,
        queues=[QueuePolicy(queue, lanes=lanes)],
        workers=workers,
        mode=mode,
        fallback_poll=timedelta(seconds=poll),
    )


async def template(store: MongoStore, tasks: Collection, *, lanes: int = 1) -> Document:
    """Tell the document that an enqueue stores, to do the same without us."""
    handle = await manager(store, lanes=lanes).enqueue(NOTE, A_NOTE)
    document = await tasks.find_one_and_delete({"_id": handle.id})
    assert document is not None
    return document


def copies(document: Document, number: int) -> list[Document]:
    """Copy a document, each with an id of its own."""
    return [{**document, "_id": ObjectId()} for _ in range(number)]


async def local_pid(client: AsyncMongoClient[Document]) -> int | None:
    """Tell the server's process, where it runs on this machine."""
    pid: int = (await client.admin.command("serverStatus"))["pid"]
    return pid if _is_mongod(pid) else None


def _is_mongod(pid: int) -> bool:
    name = Path(f"/proc/{pid}/comm")
    return name.exists() and name.read_text().startswith("mongod")


def cpu_seconds(pid: int) -> float:
    """Tell the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spaced(number: int) -> str:
    """Write a number in groups of three digits."""
    return f"{number:,}".replace(",", " ")
