"""A MongoDB store for the examples: on ``GOTASKS_MONGODB_URI``, else on a mongod of its own.

A program has a database that stays, and writes instead::

    store = await MongoStore.connect("mongodb://localhost/?replicaSet=rs0", database="myapp")
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import mongodb_uri


@contextmanager
def throwaway_database() -> Generator[tuple[str, str]]:
    """Yield a URI and the name of a database that is dropped at the end."""
    name = f"gotasks_example_{uuid4().hex[:12]}"
    with mongodb_uri() as uri:
        yield uri, name
        client: MongoClient[dict[str, Any]] = MongoClient(uri)
        with client:
            client.drop_database(name)


@asynccontextmanager
async def throwaway_store() -> AsyncGenerator[MongoStore]:
    """Yield a store on such a database."""
    with throwaway_database() as (uri, name):
        store = await MongoStore.connect(uri, database=name)
        try:
            yield store
        finally:
            await store.aclose()
