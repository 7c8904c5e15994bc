"""Connections: which client serves which event loop, process and thread.

The only file that knows the driver's client classes. A store made from a URI opens a
client of its own in each event loop and process that it is used in; a client that the
user made serves the loop and the process that it was first used in.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio
from anyio.lowlevel import current_token
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient, MongoClient, ReadPreference
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from gotasks_mongostore._cancellation import bear_cancellations
from gotasks_mongostore._elections import Elections, primary_of
from gotasks_mongostore._failures import translated
from gotasks_mongostore._urls import misread_option
from gotasks_py.errors import ConfigurationError
from gotasks_py.task import TaskId

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorClient

Document: TypeAlias = dict[str, object]
# Motor's client is known by its shape: Motor itself is an optional dependency.
Client: TypeAlias = "AsyncMongoClient[Any] | AsyncIOMotorClient[Any]"

_LONGEST_WAIT: Final = timedelta(minutes=1)
_DRIVER_NAME: Final = "gotasks_py"
# Whatever a URI or another program wrote: majority, from the primary, and dates and text
# that a hand has spoilt read as something instead of failing the query.
_CODEC: Final = CodecOptions[Document](
    tz_aware=True,
    tzinfo=UTC,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="replace",
)
_MAJORITY_WRITES: Final = WriteConcern(w="majority")
_MAJORITY_READS: Final = ReadConcern("majority")

bear_cancellations()


@dataclass(slots=True)
class Collections:
    """The database and the collections of a namespace, as one event loop uses them."""

    database: AsyncDatabase[Document]
    tasks: AsyncCollection[Document]
    queues: AsyncCollection[Document]
    metrics: AsyncCollection[Document]
    audit: AsyncCollection[Document]
    patience_seconds: float
    """How long the client may look for a server, as its URI or its maker said."""
    elections: Elections
    opening: anyio.Lock = field(default_factory=anyio.Lock)
    is_reached: bool = False
    """Whether the server was checked."""
    is_open: bool = False
    """Whether the indexes are there, too."""
    has_transactions: bool = False
    has_metrics_indexes: bool = False
    before_close: list[Callable[[], Awaitable[None]]] = field(
        default_factory=list[Callable[[], Awaitable[None]]]
    )
    has_queues_indexes: bool = False
    has_audit_indexes: bool = False
    finding: anyio.Lock = field(default_factory=anyio.Lock)
    being_claimed: list[Sequence[TaskId]] = field(default_factory=list[Sequence[TaskId]])
    """What each claim of many has found and not taken yet."""


_Place: TypeAlias = tuple[int, object]
"""A process and an event loop."""


class Connection:
    """Hands out the collections for the event loop that asks."""

    def __init__(self, source: Client | str, database: str, namespace: str) -> None:
        self._source = source
        self._database = database
        self._namespace = namespace
        self._places: dict[_Place, Collections] = {}
        _check_namespace(namespace)
        if not isinstance(source, str):
            _check_client(source)

    def collections(self) -> Collections:
        """Tell the collections, with a client of this event loop.

        Raises:
            ConfigurationError: the user's client belongs to another loop or process, or
                the event loop is not asyncio's.
        """
        place = _place()
        found = self._places.get(place)
        if found is None:
            self._forget_the_dead()
            found = self._places[place] = self._made(place)
        return found

    def blocking_tasks(
        self, timeout: timedelta
    ) -> tuple[MongoClient[Document], Collection[Document]] | None:
        """Open a blocking client beside this one; ``None`` if that cannot be done."""
        limit = max(1, round(min(timeout, _LONGEST_WAIT) / timedelta(milliseconds=1)))
        limits: dict[str, Any] = {
            "serverSelectionTimeoutMS": limit,
            "connectTimeoutMS": limit,
            "maxPoolSize": 2,
        }
        settings = _settings_of(self._source)
        if settings is None:
            return None
        with translated("open a connection for heartbeats"):
            client = MongoClient[Document](**{**settings, **limits})
        database = client.get_database(
            self._database, _CODEC, ReadPreference.PRIMARY, _MAJORITY_WRITES, _MAJORITY_READS
        )
        return client, database[self._namespace]

    async def aclose(self) -> None:
        """Close the client that this store opened for this event loop."""
        here = self._places.get(_place())
        if here is None:
            return
        for call in list(here.before_close):
            await call()
        self._places.pop(_place(), None)
        if isinstance(self._source, str):
            await here.database.client.close()

    def _made(self, place: _Place) -> Collections:
        if isinstance(self._source, str):
            client = _client(self._source)
        else:
            self._refuse_other_places(place)
            client = cast("AsyncMongoClient[Document]", self._source)  # Motor's calls are alike
        with translated("use the database"):
            database = client.get_database(
                self._database, _CODEC, ReadPreference.PRIMARY, _MAJORITY_WRITES, _MAJORITY_READS
            )
        return Collections(
            database,
            database[self._namespace],
            database[f"{self._namespace}_queues"],
            database[f"{self._namespace}_metrics"],
            database[f"{self._namespace}_audit"],
            patience_seconds=client.options.server_selection_timeout,
            elections=Elections(_primary_seen_by(client)),
        )

    def _forget_the_dead(self) -> None:
        """Let go of loops that were closed, and of those of the process that this one left.

        Their clients cannot be closed any more: that takes their event loop.
        """
        process = os.getpid()
        for owner, loop in list(self._places):
            is_closed = getattr(loop, "is_closed", None)
            if isinstance(self._source, str) and (
                owner != process or (is_closed is not None and is_closed())
            ):
                del self._places[owner, loop]

    def _refuse_other_places(self, place: _Place) -> None:
        for owner, _ in self._places:
            what = "process" if owner != place[0] else "event loop"
            msg = (
                f"this store's client was first used in another {what}, and a client serves one; "
                "make the client and the store where they are used, or give the store a URI: it "
                "then opens a client for each"
            )
            raise ConfigurationError(msg)


def _client(uri: str) -> AsyncMongoClient[Document]:
    with translated("read the URI"), warnings.catch_warnings():
        # It would go on without the option, on another replica set or namespace, say.
        warnings.simplefilter("error", UserWarning)
        try:
            return AsyncMongoClient[Document](uri, appname=_DRIVER_NAME)
        except (TypeError, ValueError) as error:  # for some mistakes the driver has no class
            msg = f"cannot read the URI: {error}"
            raise ConfigurationError(msg) from error
        except UserWarning as warning:
            msg = f"cannot read the URI: {misread_option(uri)}"
            raise ConfigurationError(msg) from warning


def _place() -> _Place:
    token = current_token()
    if "asyncio" not in token.backend_class.__module__:
        msg = (
            "MongoStore needs an asyncio event loop, which is what MongoDB's driver runs on; "
            "run the program with asyncio (or anyio's default backend), or use MemStore"
        )
        raise ConfigurationError(msg)
    return os.getpid(), token.native_token


def _check_namespace(namespace: str) -> None:
    if not all(namespace.split(".")) or namespace.startswith("system."):
        msg = (
            f"the namespace {namespace!r} cannot name a collection: dots must stand between other "
            "characters, and 'system.' is MongoDB's own"
        )
        raise ConfigurationError(msg)


def _check_client(client: object) -> None:
    if isinstance(client, AsyncMongoClient) or _is_motor(client):
        return
    msg = (
        "MongoStore needs a pymongo.AsyncMongoClient, a motor AsyncIOMotorClient or a URI, "
        f"not {type(client).__module__}.{type(client).__qualname__}"
    )
    raise ConfigurationError(msg)


def _is_motor(client: object) -> bool:
    return type(client).__module__.startswith("motor.") and hasattr(client, "delegate")


def _primary_seen_by(client: object) -> Callable[[], object]:
    made_by = cast("MongoClient[Document]", _driver_of(client))
    return lambda: primary_of(made_by.topology_description)


def _driver_of(client: object) -> object:
    return client.delegate if _is_motor(client) else client  # type: ignore[attr-defined]  # Motor's wrapped client


def _settings_of(client: object) -> Mapping[str, Any] | None:
    if isinstance(client, str):
        return {"host": client}
    # PyMongo offers no public way to copy a client; it keeps the arguments it was made
    # with. Where a release stops doing so, heartbeats run on the event loop instead.
    settings = getattr(_driver_of(client), "_init_kwargs", None)
    if not isinstance(settings, dict):
        return None
    return {name: value for name, value in settings.items() if name != "io_loop"}
