"""What ``diagnose`` looks at: the server, its set, the indexes, the plans, the oplog, clocks."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from gotasks_mongostore import _audit, _metrics, _registry, _rights
from gotasks_mongostore._driver import Collections
from gotasks_mongostore._explains import collection_of, explained, oplog_state
from gotasks_mongostore._gathering import gathered
from gotasks_mongostore._indexes import INDEXES, Index, differences, keys_of
from gotasks_mongostore._plans import CollectionName, queries
from gotasks_py.diagnosis import Finding, Severity
from gotasks_py.errors import StoreError, StorePermissionError, StoreUnavailableError

Operation: TypeAlias = Callable[[str], AbstractContextManager[Collections]]

_OLDEST: Final = (5, 0)
_SUPPORTED: Final = (7, 0)
_SHORT_OPLOG: Final = timedelta(hours=1)
_MUCH_SKEW: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One look at everything."""

    operation: Operation

    async def run(self) -> Sequence[Finding]:
        """Do every check, in the order in which to mend what they find."""
        findings: list[Finding] = []
        checks: Sequence[tuple[str, Callable[[], AsyncIterator[Finding]]]] = (
            ("server version", self._version),
            (_rights.CHECK, self._rights),
            ("replica set", self._members),
            ("concerns", self._concerns),
            ("clock", self._clock),
            ("oplog", self._oplog),
            ("indexes", self._indexes),
            ("plans", self._plans),
        )
        for name, check in checks:
            try:
                findings += [finding async for finding in check()]
            except StoreUnavailableError:
                raise
            except StoreError as error:
                remedy = "let the user of this URL run it, such as by the role clusterMonitor"
                findings.append(Finding(Severity.WARNING, name, f"not checked: {error}", remedy))
        return findings

    async def _version(self) -> AsyncIterator[Finding]:
        answer = await self._command("read the version", "buildInfo")
        text = str(answer.get("version", "0"))
        version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
        if version < _OLDEST:
            yield Finding(
                Severity.ERROR, "server version", f"MongoDB {text}", "upgrade to 5.0 or newer"
            )
        elif version < _SUPPORTED:
            yield Finding(
                Severity.OK, "server version", f"MongoDB {text} works; its makers support newer"
            )
        else:
            yield Finding(Severity.OK, "server version", f"MongoDB {text}")

    async def _members(self) -> AsyncIterator[Finding]:
        hello = await self._command("ask the server", "hello")
        if hello.get("msg") == "isdbgrid":
            yield Finding(Severity.OK, "replica set", "a sharded cluster")
            return
        if "setName" not in hello:
            yield Finding(
                Severity.ERROR,
                "replica set",
                "a standalone server: what it acknowledged can be lost with it, tasks are found "
                "by polling, and there are no transactions",
                "start mongod with --replSet and run rs.initiate()",
            )
            return
        status = await self._admin("read the state of the set", "replSetGetStatus")
        members = [each for each in _list(status.get("members")) if isinstance(each, dict)]
        down = [str(each.get("name")) for each in members if not each.get("health")]
        if down:
            yield Finding(
                Severity.ERROR,
                "replica set",
                f"{len(down)} of {_members(members)} {'is' if len(down) == 1 else 'are'} down: "
                f"{', '.join(down)}",
                "bring them back: with half of them gone nothing can be written",
            )
        else:
            yield Finding(
                Severity.OK, "replica set", f"{hello['setName']} with {_members(members)} up"
            )

    async def _concerns(self) -> AsyncIterator[Finding]:
        with self.operation("read the concerns") as here:
            writes = here.tasks.write_concern.document.get("w")
            reads = here.tasks.read_concern.level
        is_fine = writes == "majority" and reads == "majority"
        yield Finding(
            Severity.OK if is_fine else Severity.ERROR,
            "concerns",
            f"writes {writes}, reads {reads}, whatever the URL says",
            "" if is_fine else "make the store by MongoStore, which pins both to majority",
        )

    async def _clock(self) -> AsyncIterator[Finding]:
        before = time.time()
        hello = await self._command("read the clock", "hello")
        middle = (before + time.time()) / 2
        server = hello.get("localTime")
        if not isinstance(server, datetime):
            return
        offset = timedelta(seconds=middle - server.replace(tzinfo=UTC).timestamp())
        if abs(offset) > _MUCH_SKEW:
            yield Finding(
                Severity.WARNING,
                "clock",
                f"this machine is {offset.total_seconds():+.1f} s from the server; tasks go by "
                "the server's clock, so only logs are wrong",
                "let both follow NTP",
            )
        else:
            yield Finding(
                Severity.OK, "clock", f"this machine is {offset.total_seconds():+.2f} s away"
            )

    async def _oplog(self) -> AsyncIterator[Finding]:
        state = await oplog_state(self.operation)
        if state is None:
            return
        window, used = state.window, state.used
        if used > 0.5 and window < _SHORT_OPLOG:  # noqa: PLR2004  - one that fills is short, a new one is not
            yield Finding(
                Severity.WARNING,
                "oplog",
                f"it reaches back {window}: who was away for longer misses changes, and polls",
                "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 24})",
            )
        else:
            yield Finding(Severity.OK, "oplog", f"it reaches back {window}, {used:.0%} full")

    async def _rights(self) -> AsyncIterator[Finding]:
        with self.operation("read the rights of this user") as here:
            status = await here.database.command("connectionStatus", showPrivileges=True)
            names = [each.name for each in (here.tasks, here.queues, here.metrics, here.audit)]
            database = here.database.name
        try:
            with self.operation("list the collections") as here:
                await here.database.list_collection_names()
        except StorePermissionError as error:  # of which the status says nothing without a login
            yield Finding(Severity.ERROR, _rights.CHECK, str(error), _rights.REMEDY)
        else:
            for finding in _rights.judged(status, database, names):
                yield finding

    async def _indexes(self) -> AsyncIterator[Finding]:
        number = 0
        is_fit = True
        for name, indexes in _INDEXES.items():
            with self.operation("read the indexes") as here:
                collection = collection_of(here, name)
                existing = await collection.index_information()
            needed = [each for each in indexes if _is_due(name, existing) or each.name in existing]
            for finding in _judged(collection.full_name, existing, needed):
                is_fit = False
                yield finding
            number += len(needed)
        if is_fit:
            yield Finding(Severity.OK, "indexes", f"all {number} are as needed")

    async def _plans(self) -> AsyncIterator[Finding]:
        with self.operation("list the collections") as here:
            there = set(await here.database.list_collection_names())
        asked = [
            partial(explained, self.operation, query)
            for query in queries(datetime.now(UTC))
            # Where nothing was written there is nothing to ask for.
            if collection_of(here, query.collection).name in there
        ]
        wrong = [plan for plan in await gathered(asked) if not plan.is_fit]
        for plan in wrong:
            index = plan.query.index
            yield Finding(
                Severity.ERROR,
                "plans",
                f"{plan.query.name}: {plan}",
                f"see to the index {index!r}, and drop rivals of it",
            )
        if not wrong:
            yield Finding(Severity.OK, "plans", "every query is served by its index, in order")

    async def _command(self, action: str, name: str) -> Mapping[str, Any]:
        with self.operation(action) as here:
            return await here.database.command(name)

    async def _admin(self, action: str, name: str) -> Mapping[str, Any]:
        with self.operation(action) as here:
            return await here.database.client["admin"].command(name)


_INDEXES: Final[Mapping[CollectionName, Sequence[Index]]] = {
    "tasks": INDEXES,
    "queues": _registry.INDEXES,
    "metrics": _metrics.INDEXES,
    "audit": _audit.INDEXES,
}


def _is_due(name: CollectionName, existing: Mapping[str, object]) -> bool:
    """Whether the indexes should be there: some have them from their first document on.

    Queues get theirs with the first order to a manager, which may never be given.
    """
    return name == "tasks" or (name in {"metrics", "audit"} and bool(existing))


def _judged(
    collection: str, existing: Mapping[str, Mapping[str, Any]], indexes: Sequence[Index]
) -> Iterator[Finding]:
    for index in indexes:
        found = existing.get(index.name)
        if found is None:
            yield Finding(
                Severity.ERROR,
                "indexes",
                f"{index.name!r} of {collection} is missing",
                "start a manager, which makes it, as a user that may createIndex",
            )
        elif differing := differences(index, found):
            yield Finding(
                Severity.ERROR,
                "indexes",
                f"{index.name!r} of {collection} is not the library's: {differing}",
                "drop it and start a manager, which makes the right one",
            )
    ours = {index.name for index in indexes} | {"_id_"}
    name_in_database = collection.partition(".")[2]
    leading = {index.keys[0][0] for index in indexes}
    for name, found in existing.items():
        keys = keys_of(found)
        if name not in ours and keys and keys[0][0] in leading:
            yield Finding(
                Severity.WARNING,
                "indexes",
                f"{name!r} of {collection} begins with {keys[0][0]!r} as ours do: it costs every "
                "write, and tempts the planner",
                f"drop it unless you query by it: db.getCollection({name_in_database!r})"
                f".dropIndex({name!r})",
            )


def _members(members: Sequence[object]) -> str:
    return "1 member" if len(members) == 1 else f"{len(members)} members"


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []
