"""Reading lists of tasks page by page, each page a bounded number of index entries."""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import anyio
import bson
from bson.errors import BSONError
from pymongo.asynchronous.collection import AsyncCollection

from gotasks_mongostore._access import Access
from gotasks_mongostore._driver import Document
from gotasks_mongostore._filters import Filter
from gotasks_py.inspecting import bad_cursor
from gotasks_py.task import EPOCH

Tasks: TypeAlias = AsyncCollection[Document]
Pipeline: TypeAlias = list[Mapping[str, Any]]

WINDOW: Final = 2_000
"""How many tasks one look goes through for what no index serves: some milliseconds."""

_AS_LISTED: Final[Pipeline] = [
    {"$project": dict.fromkeys(("payload", "result", "progress", "metadata"), 0)},
    {
        "$set": {
            "errors": {"$cond": [{"$isArray": "$errors"}, {"$slice": ["$errors", -1]}, "$errors"]}
        }
    },
]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a list has come to."""

    run_at: object
    id: object

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Position:
        return cls(document.get("run_at"), document["_id"])

    @classmethod
    def read(cls, cursor: object) -> Position:
        """Read the text of a position.

        Raises:
            ConfigurationError: it is none.
        """
        try:
            data = base64.urlsafe_b64decode(str(cursor).encode())
            found = bson.decode(data)
            return cls(found["run_at"], found["_id"])
        except (binascii.Error, BSONError, KeyError, ValueError) as error:
            raise bad_cursor(cursor) from error

    def __str__(self) -> str:
        data = bson.encode({"run_at": self.run_at, "_id": self.id})
        return base64.urlsafe_b64encode(data).decode()

    @property
    def order(self) -> tuple[datetime, str]:
        """What positions compare by."""
        # A hand may have written something else.
        return (self.run_at if isinstance(self.run_at, datetime) else EPOCH, str(self.id))


@dataclass(frozen=True, slots=True)
class Listing:
    """Lists tasks in one direction; 1 is oldest first, -1 newest first."""

    tasks: Tasks
    direction: int

    async def page(
        self, ways: Sequence[Access], limit: int, start: Position | None, until: float
    ) -> tuple[Sequence[Document], Position | None]:
        """Read up to ``limit`` tasks after a position; tell where to go on, if anywhere.

        While too few are found it looks on, but not beyond this time of the event loop.
        """
        found: list[Document] = []
        while True:
            more, start = await self._window(ways, limit - len(found), start)
            found += more
            if start is None or len(found) == limit or anyio.current_time() > until:
                return found, start

    async def _window(
        self, ways: Sequence[Access], limit: int, start: Position | None
    ) -> tuple[Sequence[Document], Position | None]:
        found: list[Document] = []
        ends: list[Position] = []
        for way in ways:
            documents, end = await self._look(way, limit, start)
            found += documents
            ends += [] if end is None else [end]
        found.sort(key=_order, reverse=self.direction < 0)
        end = self._first(ends)
        if end is not None and len(ways) > 1:
            found = [each for each in found if not self._is_after(Position.of(each), end)]
        if len(found) > limit or (len(found) == limit and end is not None):
            return found[:limit], Position.of(found[limit - 1])
        return found, end

    async def _look(
        self, way: Access, limit: int, start: Position | None
    ) -> tuple[Sequence[Document], Position | None]:
        """Look through one window; tell what was found, and where the window has ended."""
        most = limit + 1
        window = WINDOW if way.rest else most
        found: list[Document] = []
        for served, order in self._segments(way.served, start):
            entries: Pipeline = [{"$match": served}, {"$sort": order}, {"$limit": window}]
            found += await self.run(way.hint, [*entries, *_of_rest(way.rest, most), *_AS_LISTED])
            if len(found) >= most:
                return found, Position.of(found[-1])
            end = await self._end(way, entries, window) if way.rest else None
            if end is not None:
                return found, end
        return found, None

    def _segments(
        self, served: Filter, start: Position | None
    ) -> Iterator[tuple[Filter, Mapping[str, int]]]:
        """Divide what comes after a position into ranges of the index, in order, each with its own.

        Where the time is a single one the order must not name it, or the planner no longer
        merges the scans of several queues and statuses, and sorts them all.
        """
        by_id = {"_id": self.direction}
        in_time = {"run_at": self.direction, **by_id}
        if start is None:
            yield served, in_time
            return
        later = "$gt" if self.direction > 0 else "$lt"
        within = served.get("run_at")
        bounds = within if isinstance(within, dict) else {}
        of_id = served.get("_id")
        if of_id is None:
            yield {**served, "run_at": {"$eq": start.run_at}, "_id": {later: start.id}}, by_id
            yield {**served, "run_at": {**bounds, later: start.run_at}}, in_time

    async def _end(self, way: Access, entries: Pipeline, window: int) -> Position | None:
        last = {"$group": {"_id": None, "n": {"$sum": 1}, "last": {"$last": _PLACE}}}
        for found in await self.run(way.hint, [*entries, {"$project": {"run_at": 1}}, last]):
            place = found["last"]
            if found["n"] == window and isinstance(place, dict):
                return Position.of(place)
        return None

    async def run(self, hint: str, pipeline: Pipeline) -> list[Document]:
        """Read what comes out of a pipeline over one index."""
        opening: Any = self.tasks.aggregate(pipeline, hint=hint)
        # Motor's is no awaitable, but its calls are alike.
        cursor = await opening if inspect.isawaitable(opening) else opening
        found: list[Document] = await cursor.to_list(None)
        return found

    def _first(self, positions: Sequence[Position]) -> Position | None:
        choose = min if self.direction > 0 else max
        return choose(positions, key=lambda each: each.order, default=None)

    def _is_after(self, one: Position, other: Position) -> bool:
        return one.order > other.order if self.direction > 0 else one.order < other.order


_PLACE: Final = {"run_at": "$run_at", "_id": "$_id"}


def _of_rest(rest: Filter, most: int) -> Pipeline:
    return [{"$match": rest}, {"$limit": most}] if rest else []


def _order(document: Mapping[str, object]) -> tuple[datetime, str]:
    return Position.of(document).order
