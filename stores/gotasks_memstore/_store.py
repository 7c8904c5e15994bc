"""The store in memory: a dictionary of documents under one lock."""

from __future__ import annotations

import heapq
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Final

from gotasks_memstore._audit import Audit
from gotasks_memstore._changes import Changes
from gotasks_memstore._control import Control
from gotasks_memstore._documents import Documents, id_of
from gotasks_memstore._expressions import apply, field, has
from gotasks_memstore._inspection import Inspection
from gotasks_memstore._mending import Mending
from gotasks_memstore._meters import Meters
from gotasks_memstore._metrics import MetricsDocuments
from gotasks_py.auditing import AuditEntry, Auditing
from gotasks_py.clock import Clock, SystemClock
from gotasks_py.controls import Controlling, NodeOrder
from gotasks_py.copying import copied
from gotasks_py.errors import (
    ConfigurationError,
    DuplicateTaskError,
    GotasksError,
    TaskNotFoundError,
)
from gotasks_py.feed import Feed
from gotasks_py.inspecting import Inspecting
from gotasks_py.lifecycle import (
    Patch,
    claimed,
    claimed_in_batch,
    extended,
    is_claimable,
    reaped,
)
from gotasks_py.metering import Metering
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import (
    ClaimRequest,
    Renewal,
    Renewed,
    Renewer,
    Session,
    Store,
    TaskDocument,
    Watching,
)
from gotasks_py.sweeping import Sweeping
from gotasks_py.task import EPOCH, LeaseRef, Status, Task, TaskId

_HEX_ID: Final = re.compile(r"[0-9a-f]{24}")


class MemStore(Control, Inspection, Mending, Meters, Audit):
    """Keeps tasks in this process's memory, with the semantics of the MongoDB store.

    For tests and for trying things out: everything is gone with the process. Give
    ``clock=VirtualClock()`` from :mod:`gotasks_py.testing` to let virtual time drive due
    times and leases. Safe to use from several threads.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._changes = Changes()
        self._documents = Documents(self._changes.document_changed)
        self._queues: dict[str, dict[str, object]] = {}
        self._orders: dict[str, NodeOrder] = {}
        self._ordered_at: dict[str, datetime] = {}
        self._metrics = MetricsDocuments()
        self._audit: dict[str, AuditEntry] = {}
        self._before_close: list[Callable[[], Awaitable[None]]] = []
        self._lock = threading.RLock()
        self._ids = int.from_bytes(os.urandom(8), "big") << 32

    @classmethod
    def from_url(cls, url: str) -> MemStore:
        """Make a store from ``memory://``.

        Raises:
            ConfigurationError: the URL says more than that.
        """
        if url != "memory://":
            msg = f"memory has no name or settings: memory://, not {url!r}"
            raise ConfigurationError(msg)
        return cls()

    @property
    def clock(self) -> Clock:
        return self._clock

    def new_id(self) -> TaskId:
        with self._lock:
            self._ids += 1
            return f"{self._ids:024x}"

    def parse_id(self, value: object) -> TaskId:
        text = str(value).lower()
        if not _HEX_ID.fullmatch(text):
            raise TaskNotFoundError(value)
        return text

    async def open(self) -> None:
        """Do nothing: memory is always there."""

    async def aclose(self) -> None:
        """Let those who wait for it have their last word; the tasks stay readable."""
        for call in list(self._before_close):
            await call()

    async def register_queue(self, policy: QueuePolicy) -> Mapping[str, object]:
        with self._lock:
            is_new = policy.name not in self._queues
            recorded = self._queues.setdefault(policy.name, policy.recorded_after(None))
        if is_new:
            self._changes.queue_changed(policy.name)
        policy.refuse_conflict(recorded)
        return copied(recorded)

    async def set_queue_policy(self, policy: QueuePolicy) -> None:
        with self._lock:
            before = self._queues.get(policy.name)
            self._queues[policy.name] = {**(before or {}), **policy.recorded_after(before)}
        self._changes.queue_changed(policy.name)

    async def queues(self) -> Mapping[str, Mapping[str, object]]:
        with self._lock:
            return copied(self._queues)

    def watch(
        self, *, finished: bool, position: object = None
    ) -> AbstractAsyncContextManager[Feed] | None:
        return self._changes.feed(finished=finished, position=position)

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        raise _no_transactions()

    async def insert(self, document: TaskDocument, *, session: Session | None = None) -> None:
        _refuse_session(session)
        with self._lock:
            self._purge()
            if self._documents.get(id_of(document)) is None:
                self._check_key(document)
                self._documents.put(copied(document))

    async def insert_many(self, documents: Sequence[TaskDocument]) -> Mapping[int, GotasksError]:
        failures: dict[int, GotasksError] = {}
        for index, document in enumerate(documents):
            try:
                await self.insert(document)
            except DuplicateTaskError as error:
                failures[index] = error
        return failures

    async def claim(self, request: ClaimRequest) -> Task | None:
        patch = claimed(token=request.token, owner=request.owner, lease=request.lease)
        with self._lock:
            taken = [self._apply(each, patch) for each in self._due(request, 1)]
        return taken[0] if taken else None

    async def next_due(
        self, queue: str, types: Sequence[str], lanes: Sequence[int] = (0,)
    ) -> datetime | None:
        with self._lock:
            self._purge()
            due = [
                due_at
                for document in self._documents.claimable(queue, lanes, types)
                if isinstance(due_at := document.get("due_at"), datetime)
            ]
        return min(due, default=None)

    async def claim_many(self, request: ClaimRequest, limit: int) -> Sequence[Task]:
        patch = claimed_in_batch(token=request.token, owner=request.owner, lease=request.lease)
        with self._lock:
            return [self._apply(each, patch) for each in self._due(request, limit)]

    async def find_claimed(self, request: ClaimRequest) -> Sequence[Task]:
        with self._lock:
            return [_read(each) for each in self._documents if _is_claimed_by(each, request.token)]

    async def settle(self, ref: LeaseRef, patch: Patch, *, session: Session | None = None) -> bool:
        _refuse_session(session)
        with self._lock:
            self._purge()
            return self._settle(ref, patch)

    async def settle_many(
        self, refs: Sequence[LeaseRef], patch: Patch, values: Sequence[object] = ()
    ) -> frozenset[str]:
        pairs = list(zip(refs, values or [None] * len(refs), strict=True))
        with self._lock:
            self._purge()
            return frozenset(
                ref.token for ref, value in pairs if not self._settle(ref, patch, value)
            )

    async def is_held(self, ref: LeaseRef) -> bool:
        with self._lock:
            document = self._documents.get(ref.id)
            return document is not None and _is_held(document, ref)

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        return self._renew(renewals)

    def open_renewer(self, timeout: timedelta) -> Renewer | None:
        del timeout
        # Only the system's clock can be read outside the event loop.
        return _MemRenewer(self._renew) if isinstance(self._clock, SystemClock) else None

    async def get(self, task_id: TaskId) -> Task | None:
        with self._lock:
            self._purge()
            document = self._documents.get(task_id)
            return None if document is None else _read(document)

    async def transition(self, task_id: TaskId, patch: Patch) -> Task | None:
        with self._lock:
            self._purge()
            document = self._documents.get(task_id)
            if document is None or not _fits(document, patch):
                return None
            return self._apply(document, patch)

    async def delete(self, task_id: TaskId) -> bool:
        with self._lock:
            return self._documents.remove(task_id)

    async def reap(self, limit: int) -> Sequence[Task]:
        with self._lock:
            now = self._clock.now()
            lapsed = [
                (at, document)
                for document in self._documents
                if isinstance(at := document.get("reap_at"), datetime)
                and at <= now
                and document.get("status") == Status.RUNNING
            ]
            lapsed.sort(key=lambda each: each[0])
            return [self._apply(document, reaped()) for _, document in lapsed[:limit]]

    async def dead_ids(self, *, queue: str | None, type: str | None) -> AsyncIterator[TaskId]:
        with self._lock:
            self._purge()
            tasks = [Task.from_document(document) for document in self._documents]
        dead = [
            task
            for task in tasks
            if task.status is Status.DEAD
            and queue in {None, task.queue}
            and type in {None, task.type}
        ]
        for task in sorted(dead, key=lambda task: task.finished_at or EPOCH):
            yield task.id

    def _settle(self, ref: LeaseRef, patch: Patch, each: object = None) -> bool:
        document = self._documents.get(ref.id)
        if document is None:
            return False
        if _is_ours(document, ref) and _fits(document, patch):
            self._apply(document, patch, each)
            return True
        if patch.source is Status.PENDING and patch.target is Status.RUNNING:
            return _is_held(document, ref)
        is_there = (document.get("queue"), document.get("lane")) == (ref.queue, ref.lane)
        was_ours = document.get("settle_token") == patch.mark_of(ref)
        return patch.ends_lease and is_there and was_ours

    def _renew(self, renewals: Sequence[Renewal]) -> Renewed:
        lost, asked = set[str](), set[str]()
        with self._lock:
            self._purge()
            for renewal in renewals:
                ref = renewal.ref
                document = self._documents.get(ref.id)
                if document is None or not _is_held(document, ref):
                    lost.add(ref.token)
                    continue
                self._apply(document, extended(renewal.lease))
                if has(document, "cancel_requested_at"):
                    asked.add(ref.token)
        return Renewed(frozenset(lost), frozenset(asked))

    def _due(self, request: ClaimRequest, limit: int) -> Sequence[TaskDocument]:
        """List what is due, in the order of claims."""
        self._purge()
        now = self._clock.now()
        claimable = self._documents.claimable(request.queue, request.lanes, request.types)
        due = (document for document in claimable if _is_due(document, now))
        return heapq.nsmallest(limit, due, key=_claim_order)

    def _apply(self, document: TaskDocument, patch: Patch, each: object = None) -> Task:
        changed = apply(patch, document, self._clock.now(), each)
        if changed.get("unique_key") != document.get("unique_key"):
            self._check_key(changed)
        self._documents.put(changed)
        return _read(changed)

    def _check_key(self, document: TaskDocument) -> None:
        key = document.get("unique_key")
        if not isinstance(key, str):
            return
        holder = self._documents.holder(document)
        if holder is not None and holder != id_of(document):
            raise DuplicateTaskError(str(document["queue"]), key, holder)

    def _purge(self) -> None:
        self._documents.purge(self._clock.now())


class _MemRenewer:
    def __init__(self, renew: Callable[[Sequence[Renewal]], Renewed]) -> None:
        self._renew = renew

    def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        return self._renew(renewals)

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _refuse_session(session: Session | None) -> None:
    if session is not None:
        raise _no_transactions()


def _no_transactions() -> ConfigurationError:
    return ConfigurationError(
        "MemStore has no transactions; use MongoStore on a replica set where one is needed"
    )


def _read(document: TaskDocument) -> Task:
    return Task.from_document(copied(document))


def _is_due(document: TaskDocument, now: datetime) -> bool:
    due_at = document.get("due_at")
    return isinstance(due_at, datetime) and is_claimable(due_at, now)


def _claim_order(document: TaskDocument) -> tuple[int, datetime, str]:
    priority, due_at = document.get("priority"), document["due_at"]
    assert isinstance(due_at, datetime)  # noqa: S101  - only due tasks are put in order
    return (-priority if isinstance(priority, int) else 0, due_at, str(document["_id"]))


def _is_claimed_by(document: TaskDocument, token: str) -> bool:
    held = field(document, "lease.token")
    return isinstance(held, str) and (held == token or held.startswith(f"{token}/"))


def _is_held(document: TaskDocument, ref: LeaseRef) -> bool:
    return document.get("status") == Status.RUNNING and _is_ours(document, ref)


def _is_ours(document: TaskDocument, ref: LeaseRef) -> bool:
    place = (document.get("queue"), document.get("lane"), field(document, "lease.token"))
    return place == (ref.queue, ref.lane, ref.token)


def _fits(document: TaskDocument, patch: Patch) -> bool:
    if patch.source is not None and document.get("status") != patch.source:
        return False
    asked = has(document, "cancel_requested_at")
    return patch.cancel_requested is None or patch.cancel_requested == asked


_: type[Store] = MemStore
_watching: type[Watching] = MemStore
_metering: type[Metering] = MemStore
_inspector: type[Inspecting] = MemStore
_controlling: type[Controlling] = MemStore
_sweeping: type[Sweeping] = MemStore
_auditing: type[Auditing] = MemStore
