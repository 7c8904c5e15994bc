"""Writing down who did what."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import anyio

from gotasks_dashboard._permissions import Access
from gotasks_dashboard._problems import Problem, problem_of
from gotasks_py import (
    AuditEntry,
    Auditing,
    GotasksError,
    Outcome,
    Store,
    StoreUnavailableError,
)
from gotasks_py.patience import patience

logger = logging.getLogger("gotasks_dashboard.audit")

_LONGEST_ERROR: Final = 1_000
_MOST_OWED: Final = 100
_counter = itertools.count()

Learnt: TypeAlias = dict[str, object]
"""What turns out to be the target of an action while it is done."""


class Trail:
    """Writes into the store; ``acted`` is called when something was done, or may have been.

    One write may take so many seconds. What the store would not take is kept, and written
    when it can be: with what is done next, or before somebody reads the audit here.
    """

    def __init__(
        self, store: Store, acted: Callable[[AuditEntry], None], patience_seconds: float
    ) -> None:
        self.acted = acted
        self._store = store
        self._patience_seconds = patience_seconds
        self._owed: dict[str, AuditEntry] = {}
        self._turn = anyio.Lock()

    def entry(
        self, access: Access, action: str, target: Mapping[str, object], **details: object
    ) -> AuditEntry:
        """Begin to tell of something that somebody does."""
        return AuditEntry(
            id=_new_id(),
            at=self._store.clock.now(),
            user=access.user,
            action=action,
            target=target,
            details={name: value for name, value in details.items() if value is not None},
        )

    async def record(self, entry: AuditEntry) -> None:
        """Write an entry down: where the store keeps none, into the log alone.

        What was done stays done, whatever becomes of the entry.
        """
        logger.info(
            "%s by %s: %s %s, %s",
            entry.action,
            entry.user,
            entry.target,
            entry.details,
            entry.outcome,
        )
        self._owed.pop(entry.id, None)
        self._owed[entry.id] = entry
        if len(self._owed) > _MOST_OWED:
            del self._owed[next(iter(self._owed))]
        await self.settle()

    async def settle(self) -> None:
        """Write down what the store has not taken yet."""
        store = self._store
        if not isinstance(store, Auditing):
            self._owed.clear()
            return
        seconds = self._patience_seconds
        try:
            # A sender who has gone changes nothing about what was done.
            with anyio.fail_after(seconds, shield=True), patience(seconds):
                async with self._turn:
                    await self._pay(store)
        except (GotasksError, TimeoutError) as error:
            _complain(error)

    async def _pay(self, store: Auditing) -> None:
        while self._owed:
            entry = next(iter(self._owed.values()))
            try:
                await store.audit(entry)
            except StoreUnavailableError:
                raise
            except GotasksError as error:
                _complain(error)  # it would be refused again
            if self._owed.get(entry.id) is entry:
                del self._owed[entry.id]

    def wish(self, access: Access, job_id: str) -> AuditEntry:
        """Ask that a job be stopped, by an entry that the process that does it looks for."""
        return replace(self.entry(access, "stop", {"job": job_id}), id=_wish_id(job_id))

    async def is_told_to_stop(self, job_id: str) -> bool:
        """Whether somebody has asked, in whichever process, that a job be stopped."""
        store = self._store
        if not isinstance(store, Auditing):
            return False
        try:
            return await store.audited(_wish_id(job_id)) is not None
        except GotasksError:
            return False  # it is asked again soon

    @asynccontextmanager
    async def recorded(self, entry: AuditEntry) -> AsyncGenerator[Learnt]:
        """Write down what is done in the block, and what has become of it.

        What the block learns of its target only then is put into what it is given.
        """
        async with self.unless_failed(entry) as learnt:
            yield learnt
        await self.record(replace(_with(entry, learnt), finished_at=self._store.clock.now()))

    @asynccontextmanager
    async def unless_failed(self, entry: AuditEntry) -> AsyncGenerator[Learnt]:
        """Write down what was tried in the block, if it fails."""
        learnt: Learnt = {}
        try:
            yield learnt
        except Exception as error:
            if isinstance(error, StoreUnavailableError) and error.task_id is not None:
                learnt["task"] = str(error.task_id)
            failed = replace(
                _with(entry, learnt), outcome=Outcome.FAILED, error=_said(error)[:_LONGEST_ERROR]
            )
            await self.record(failed)
            raise
        finally:
            self.acted(entry)


def _with(entry: AuditEntry, learnt: Learnt) -> AuditEntry:
    return replace(entry, target={**entry.target, **learnt})


def _wish_id(job_id: str) -> str:
    return f"stop.{job_id}"


def _complain(error: Exception) -> None:
    logger.error("the audit could not be written: %s", str(error) or "it took too long")


def _said(error: Exception) -> str:
    match error:
        case Problem():
            return str(error)
        case GotasksError():
            return str(problem_of(error))
        case _:
            return "something went wrong; the server's log has it"


def _new_id() -> str:
    """Make 32 hexadecimal digits; those of one process rise."""
    return f"{time.time_ns() // 1_000_000:012x}{next(_counter):08x}{secrets.token_hex(6)}"
