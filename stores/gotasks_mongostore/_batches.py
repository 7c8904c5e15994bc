"""Claiming and settling many tasks, each in one write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import bson
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.collection import AsyncCollection

from gotasks_mongostore import _filters as filters
from gotasks_mongostore._decoding import all_in_utc, without_zones
from gotasks_mongostore._driver import Document
from gotasks_mongostore._low_water import Bound
from gotasks_mongostore._reading import claimed_task
from gotasks_mongostore._render import Pipeline, render
from gotasks_py.expressions import Each
from gotasks_py.lifecycle import Patch, batch_token, claimed_as_known, claimed_in_batch
from gotasks_py.store import ClaimRequest
from gotasks_py.task import LeaseRef, Status, Task, TaskId

# A command holds 16 MiB: half of it for a table of results, the rest for all else.
_TABLE_BYTES: Final = 8 * 1024 * 1024
_MOST_AT_ONCE: Final = 10_000


async def find(
    tasks: AsyncCollection[Document],
    request: ClaimRequest,
    limit: int,
    bound: Bound | None,
    being_claimed: Sequence[TaskId] = (),
) -> list[Document]:
    """Read what a claim of many may take, in the order of claims.

    ``being_claimed``: what other claims of this process have found and not taken yet.
    """
    condition = filters.due(request) if bound is None else filters.due_from(request, *bound)
    if being_claimed:
        condition["_id"] = {"$nin": being_claimed}
    cursor = without_zones(tasks).find(
        condition, sort=filters.CLAIM_ORDER, limit=limit, hint="claim", batch_size=limit
    )
    found = await cursor.to_list(None)
    all_in_utc(found)
    return found


async def take(
    tasks: AsyncCollection[Document],
    request: ClaimRequest,
    found: Sequence[Document],
    now: datetime,
) -> list[Task]:
    """Claim what was found, unless others have; in the order it was found.

    Where the write took all, the tasks are made from what was found, as of ``now``. Those
    that were lapsed, or that a hand has spoilt, are read back: the server knows best what
    became of them.
    """
    states = [filters.plain_state(each) for each in found]
    result = await tasks.update_many(
        filters.still_as_found(request, found, states), render(_claim(request, states)), hint="_id_"
    )
    if result.matched_count != len(found):
        states = [None] * len(found)
    unsure = [each for each, state in zip(found, states, strict=True) if state is None]
    ours = await _read_back(tasks, request, unsure) if unsure and result.matched_count else {}
    documents = (
        ours.get(repr(each["_id"])) if state is None else _taken(each, state, request, now)
        for each, state in zip(found, states, strict=True)
    )
    return [claimed_task(each, request) for each in documents if each is not None]


def _claim(request: ClaimRequest, states: Sequence[filters.PlainState | None]) -> Patch:
    state = states[0]
    if state is None or any(each != state for each in states):
        return claimed_in_batch(token=request.token, owner=request.owner, lease=request.lease)
    attempts, _, max_attempts = state
    return claimed_as_known(
        token=request.token,
        owner=request.owner,
        lease=request.lease,
        attempts=attempts,
        max_attempts=max_attempts,
    )


async def _read_back(
    tasks: AsyncCollection[Document], request: ClaimRequest, found: Sequence[Document]
) -> Mapping[str, Document]:
    ours = filters.held_in_batch(request, [each["_id"] for each in found])
    # A hand can have made ids that cannot be hashed.
    return {repr(each["_id"]): each for each in await tasks.find(ours, hint="_id_").to_list(None)}


def _taken(
    document: Document, state: filters.PlainState, request: ClaimRequest, now: datetime
) -> Document:
    """Do in place what the patch of the claim does to a pending task."""
    until = now + request.lease
    document["lease"] = {
        "token": batch_token(request.token, document["_id"]),
        "owner": request.owner,
        "until": until,
        "due_at": document["due_at"],
    }
    document["due_at"] = until
    document["updated_at"] = now
    attempts, _, max_attempts = state
    if attempts + 1 < max_attempts:
        document["status"] = Status.RUNNING.value
        document["attempts"] = attempts + 1
        document["started_at"] = now
    return document


async def settle(
    tasks: AsyncCollection[Document],
    refs: Sequence[LeaseRef],
    patch: Patch,
    values: Sequence[object],
) -> frozenset[str]:
    """Write to many running tasks; tell the tokens that the fence refused.

    Raises:
        ValueError: there is not a value for each of ``refs``.
    """
    if values and len(values) != len(refs):
        msg = f"{len(refs)} tasks came with {len(values)} values"
        raise ValueError(msg)
    refused = set[str]()
    for part, pipeline in _parts(tasks, refs, patch, values):
        result = await tasks.update_many(filters.held_by_any(part, patch), pipeline, hint="_id_")
        if result.matched_count != len(part):
            refused |= await _refused(tasks, part, patch)
    return frozenset(refused)


async def _refused(
    tasks: AsyncCollection[Document], refs: Sequence[LeaseRef], patch: Patch
) -> set[str]:
    ours = filters.marked_by_any(refs, patch)
    found = await tasks.find(ours, {"settle_token": 1}, hint="_id_").to_list(None)
    marks = {each["settle_token"] for each in found}
    return {ref.token for ref in refs if patch.mark_of(ref) not in marks}


def _parts(
    tasks: AsyncCollection[Document],
    refs: Sequence[LeaseRef],
    patch: Patch,
    values: Sequence[object],
) -> Iterator[tuple[Sequence[LeaseRef], Pipeline]]:
    """Split a settlement into what one command can carry."""
    has_table = bool(values) and any(isinstance(each, Each) for each in patch.changes.values())
    for start in range(0, len(refs), _MOST_AT_ONCE):
        part = refs[start : start + _MOST_AT_ONCE]
        if has_table:
            of_part = values[start : start + _MOST_AT_ONCE]
            yield from _with_tables(tasks, part, patch, of_part)
        else:
            yield part, render(patch)


def _with_tables(
    tasks: AsyncCollection[Document],
    refs: Sequence[LeaseRef],
    patch: Patch,
    values: Sequence[object],
) -> Iterator[tuple[Sequence[LeaseRef], Pipeline]]:
    table = bson.encode({"$literal": values}, codec_options=tasks.codec_options)
    if len(table) > _TABLE_BYTES and len(refs) > 1:
        half = len(refs) // 2
        yield from _with_tables(tasks, refs[:half], patch, values[:half])
        yield from _with_tables(tasks, refs[half:], patch, values[half:])
        return
    index = {"$indexOfArray": [{"$literal": [ref.id for ref in refs]}, "$_id"]}
    value: object = {"$arrayElemAt": [RawBSONDocument(table), index]}
    if any(each is None for each in values):
        value = {"$ifNull": [value, "$$REMOVE"]}
    yield refs, render(patch, value)
