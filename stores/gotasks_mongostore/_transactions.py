"""Transactions in which tasks are enqueued or completed together with the user's own writes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from pymongo import ReadPreference
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from gotasks_mongostore._failures import translated
from gotasks_py.errors import ConfigurationError

_UNKNOWN_COMMIT: Final = "UnknownTransactionCommitResult"
_PAUSE_SECONDS: Final = 0.1


@asynccontextmanager
async def transaction(client: Any, timeout_seconds: float) -> AsyncGenerator[Any]:  # noqa: ANN401  - PyMongo's or Motor's client, and its session
    """Commit what is done with the session when the block ends, abort if it raises."""
    with translated("begin a transaction"):
        session = await _resolved(client.start_session())
        await _resolved(
            session.start_transaction(
                read_concern=ReadConcern("majority"),
                write_concern=WriteConcern(w="majority"),
                read_preference=ReadPreference.PRIMARY,
            )
        )
    try:
        yield session
        # Shielded: a commit that was sent may have happened.
        with translated("commit a transaction"), anyio.CancelScope(shield=True):
            await _commit(session, timeout_seconds)
    finally:
        # Ending a session aborts the transaction that it still has open.
        with anyio.CancelScope(shield=True):
            await session.end_session()


def check_session(session: Any, client: object) -> None:  # noqa: ANN401  - as above
    """Refuse a session of another client, which the drivers do in ways of their own."""
    if session is not None and getattr(session, "client", None) is not client:
        msg = (
            "session= belongs to another client than this store's; begin the transaction with "
            "store.transaction(), or make the store from the client that began it"
        )
        raise ConfigurationError(msg)


async def _commit(session: Any, timeout_seconds: float) -> None:  # noqa: ANN401  - as above
    """Commit, and ask again while the answer is lost: a repeated commit changes nothing."""
    deadline = anyio.current_time() + timeout_seconds
    while True:
        try:
            await session.commit_transaction()
        except PyMongoError as error:
            is_unknown = error.has_error_label(_UNKNOWN_COMMIT)
            if not is_unknown or anyio.current_time() > deadline:
                raise
            await anyio.sleep(_PAUSE_SECONDS)
        else:
            return


async def _resolved(value: Any) -> Any:  # noqa: ANN401  - as above
    """Await where one driver makes a coroutine of what the other does at once."""
    return await value if inspect.isawaitable(value) else value
