"""The indexes of the task collection, each with the query that it serves; and making indexes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from gotasks_mongostore._filters import UNMOVED
from gotasks_py.errors import ConfigurationError

logger = logging.getLogger("gotasks_py.mongostore")


@dataclass(frozen=True, slots=True)
class Index:
    """One index: its keys in order, and its options."""

    name: str
    keys: tuple[tuple[str, int], ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def _while_present(path: str) -> Mapping[str, Any]:
    return {"partialFilterExpression": {path: {"$exists": True}}}


INDEXES: Final = (
    # Claims, by queue, lane and type in strict order. Only live work is in it.
    Index(
        "claim",
        (("queue", 1), ("lane", 1), ("type", 1), ("priority", -1), ("due_at", 1), ("_id", 1)),
        _while_present("due_at"),
    ),
    # The janitor: running tasks that nobody may claim again, by the end of their lease.
    Index("reap", (("reap_at", 1),), _while_present("reap_at")),
    # Active tasks that neither of them would ever look at: there are none, unless a hand made them.
    Index(
        "stuck",
        (("status", 1), ("updated_at", 1)),
        {"partialFilterExpression": UNMOVED},
    ),
    # Unique keys. The field is there only while the task is active.
    Index(
        "unique",
        (("queue", 1), ("lane", 1), ("unique_key", 1)),
        {"unique": True, **_while_present("unique_key")},
    ),
    # Retention. Tasks without a lifetime cost it nothing.
    Index("ttl", (("expires_at", 1),), {"expireAfterSeconds": 0, **_while_present("expires_at")}),
    # Dead letters of a queue or a type, oldest first.
    Index(
        "dead",
        (("queue", 1), ("type", 1), ("finished_at", 1)),
        {"partialFilterExpression": {"status": "dead"}},
    ),
    # Lists and counts by status, the oldest task that is due, what is scheduled.
    Index("list", (("queue", 1), ("status", 1), ("run_at", 1), ("_id", 1))),
    # Running tasks that were asked to stop.
    Index(
        "cancelling",
        (("cancel_requested_at", -1),),
        {
            "partialFilterExpression": {
                "status": "running",
                "cancel_requested_at": {"$exists": True},
            }
        },
    ),
    # Dead letters that died of the same.
    Index(
        "errors",
        (("queue", 1), ("error_fingerprint", 1), ("run_at", 1), ("_id", 1)),
        _while_present("error_fingerprint"),
    ),
    # Lists by tag. Tasks without tags cost it nothing.
    Index("tags", (("tags", 1), ("run_at", 1), ("_id", 1)), _while_present("tags.0")),
    # Final tasks by the key that they held.
    Index(
        "released",
        (("released_key", 1), ("run_at", 1), ("_id", 1)),
        _while_present("released_key"),
    ),
)

_CONFLICTS: Final = {85, 86}  # IndexOptionsConflict, IndexKeySpecsConflict
_COMPARED: Final = ("unique", "expireAfterSeconds", "partialFilterExpression")


async def ensure_indexes(
    database: AsyncDatabase[dict[str, object]],
    collection: AsyncCollection[dict[str, object]],
    indexes: Sequence[Index] = INDEXES,
) -> None:
    """Make the indexes that are missing. Safe to run on many processes at once.

    Raises:
        ConfigurationError: an index of that name exists and means something else.
    """
    existing = await collection.index_information()
    missing = [index for index in indexes if index.name not in existing]
    if missing:
        await _create_all(collection, missing)
    for index in indexes:
        if found := existing.get(index.name):
            await _reconcile(database, collection, index, found)


async def _create_all(
    collection: AsyncCollection[dict[str, object]], indexes: Sequence[Index]
) -> None:
    models = [
        IndexModel(list(index.keys), name=index.name, **dict(index.options)) for index in indexes
    ]
    try:
        await collection.create_indexes(models)
    except OperationFailure as error:
        if error.code not in _CONFLICTS:
            raise
        for index in indexes:  # one after the other, to tell which one it is
            await _create(collection, index)


async def _create(collection: AsyncCollection[dict[str, object]], index: Index) -> None:
    try:
        await collection.create_index(list(index.keys), name=index.name, **dict(index.options))
    except OperationFailure as error:
        if error.code not in _CONFLICTS:
            raise
        msg = (
            f"index {index.name!r} {dict(index.keys)} of collection {collection.full_name} cannot "
            f"be made beside an existing index: {error.details and error.details.get('errmsg')}; "
            "drop that one, or give the store another namespace="
        )
        raise ConfigurationError(msg) from error


async def _reconcile(
    database: AsyncDatabase[dict[str, object]],
    collection: AsyncCollection[dict[str, object]],
    index: Index,
    found: Mapping[str, object],
) -> None:
    differing = _differing(index, found)
    if not differing:
        return
    if set(differing) == {"expireAfterSeconds"}:
        seconds = index.options["expireAfterSeconds"]
        logger.warning(
            "index %r of %s expires after %s s, changing it to %s s",
            index.name,
            collection.full_name,
            found.get("expireAfterSeconds"),
            seconds,
        )
        await database.command(
            "collMod",
            collection.name,
            index={"name": index.name, "expireAfterSeconds": seconds},
        )
        return
    msg = (
        f"index {index.name!r} of collection {collection.full_name} is not the library's "
        f"({differences(index, found)}); drop it, or give the store another namespace="
    )
    raise ConfigurationError(msg)


def differences(index: Index, found: Mapping[str, object]) -> str:
    """Tell in words how an index that exists differs from what is needed; empty: it does not."""
    return "; ".join(
        f"{name}: found {actual!r}, needed {wanted!r}"
        for name, (actual, wanted) in sorted(_differing(index, found).items())
    )


def _differing(index: Index, found: Mapping[str, object]) -> Mapping[str, tuple[object, object]]:
    wanted = {"key": list(index.keys), **{name: index.options.get(name) for name in _COMPARED}}
    actual = {"key": keys_of(found), **{name: found.get(name) for name in _COMPARED}}
    return {name: (actual[name], wanted[name]) for name in wanted if wanted[name] != actual[name]}


def keys_of(found: Mapping[str, object]) -> list[tuple[str, int]]:
    """Tell the keys of an index in order; none of one that is not by plain fields."""
    keys = found.get("key")
    if not isinstance(keys, list):
        return []
    return [(name, int(direction)) for name, direction in keys if not isinstance(direction, str)]
