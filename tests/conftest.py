"""One MongoDB for the whole run, and every store as a parameter."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import settings
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient

from gotasks_memstore import MemStore
from gotasks_mongostore import MongoStore
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py.store import Store
from tests.lab import Lab, ManualClock, MemHand, MongoHand, raw_collection

KINDS = ("memstore", "mongostore", "mongostore-motor")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("gotasks", deadline=None)  # a busy machine takes its time
    settings.load_profile("gotasks")
    # Processes that tests start and signal inherit it where these are ignored, as under nohup
    # or in the background of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # PyMongo 4.20: a monitor that is about to connect while its client is closed leaves the
    # socket to the garbage collector, at any later moment.
    collected = "ignore:Exception ignored in. <{}:pytest.PytestUnraisableExceptionWarning"
    for ignored in (
        "ignore:unclosed <socket:ResourceWarning",
        "ignore:unclosed transport <_SelectorSocketTransport:ResourceWarning",
        collected.format("socket"),
        collected.format("function _SelectorTransport.__del__"),
    ):
        config.addinivalue_line("filterwarnings", ignored)


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio"


@pytest.fixture(scope="session")
def mongodb() -> Iterator[str]:
    """Tell the URI of a replica set; one is started unless GOTASKS_MONGODB_URI names it."""
    if configured := os.environ.get("GOTASKS_MONGODB_URI"):
        yield configured
        return
    quick_ttl = ("--setParameter", "ttlMonitorSleepSecs=1")
    with LocalReplicaSet(test_commands=True, arguments=quick_ttl) as servers:
        yield servers.uri


@pytest.fixture(scope="session")
def raw_client(mongodb: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """Connect for what tests do behind a store's back."""
    with MongoClient[dict[str, Any]](mongodb) as client:
        yield client


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name a collection of the test's own, dropped at its end."""
    client: MongoClient[dict[str, Any]] = request.getfixturevalue("raw_client")
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    database = client["gotasks_tests"]
    database.drop_collection(name)
    database.drop_collection(f"{name}_queues")
    database.drop_collection(f"{name}_metrics")
    database.drop_collection(f"{name}_audit")


@pytest.fixture(
    params=[
        KINDS[0],
        pytest.param(KINDS[1], marks=pytest.mark.mongo),
        pytest.param(KINDS[2], marks=pytest.mark.mongo),
    ]
)
async def lab(request: pytest.FixtureRequest, anyio_backend: object) -> AsyncIterator[Lab]:
    """Set up each store in turn, empty."""
    async with a_lab(request, request.param) as made:
        yield made


@pytest.fixture
async def mongo_lab(request: pytest.FixtureRequest, anyio_backend: object) -> AsyncIterator[Lab]:
    """Set up the MongoDB store on PyMongo's own client, empty."""
    async with a_lab(request, "mongostore") as made:
        yield made


@pytest.fixture
def store(lab: Lab) -> Store:
    return lab.store


@asynccontextmanager
async def a_lab(request: pytest.FixtureRequest, kind: str) -> AsyncGenerator[Lab]:
    if kind == "memstore":
        clock = ManualClock()
        memory = MemStore(clock=clock)
        yield Lab(memory, MemHand(memory, clock), kind)
        return
    uri: str = request.getfixturevalue("mongodb")
    namespace: str = request.getfixturevalue("namespace")
    collection = raw_collection(request.getfixturevalue("raw_client"), namespace)
    async with a_client(kind, uri) as client:
        store = MongoStore(client, database=collection.database.name, namespace=namespace)
        await store.open()
        yield Lab(store, MongoHand(collection, store), kind)


@asynccontextmanager
async def a_client(kind: str, uri: str) -> AsyncGenerator[Any]:
    if kind == "mongostore-motor":
        motor = AsyncIOMotorClient[Any](uri)
        yield motor
        motor.close()
        return
    async with AsyncMongoClient[Any](uri) as client:
        yield client
