"""What a store sends to its server, as the driver's own listener sees it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from gotasks_mongostore import MongoStore
from tests.lab import Lab, MongoHand, RawCollection

# What the driver says to keep connections and sessions, or has to do with authentication.
_HOUSEKEEPING = {"hello", "ismaster", "endSessions", "ping", "saslStart", "saslContinue"}


class Recorder(CommandListener):
    """Keeps the commands of every client that it is given to."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in _HOUSEKEEPING:
            self.sent.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass

    @contextmanager
    def recording(self) -> Generator[list[dict[str, Any]]]:
        """Collect what is sent in the block alone."""
        self.sent = []
        yield self.sent


@dataclass
class Recorded:
    """A lab whose commands are recorded."""

    lab: Lab
    recorder: Recorder


@asynccontextmanager
async def recorded_lab(
    uri: str, collection: RawCollection, **settings: Any
) -> AsyncGenerator[Recorded]:
    recorder = Recorder()
    settings.setdefault("appname", uuid.uuid4().hex)
    async with AsyncMongoClient[Any](uri, event_listeners=[recorder], **settings) as client:
        store = MongoStore(client, database=collection.database.name, namespace=collection.name)
        await store.open()
        yield Recorded(Lab(store, MongoHand(collection, store), "mongostore"), recorder)


def explainable(command: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what belongs to the connection, and what explain does not take."""
    dropped = {"lsid", "txnNumber", "$db", "$clusterTime", "$readPreference"}
    dropped |= {"writeConcern", "readConcern", "maxTimeMS", "ordered"}
    return {name: value for name, value in command.items() if name not in dropped}
