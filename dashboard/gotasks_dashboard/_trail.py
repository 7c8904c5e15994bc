"""Writing down who did what."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from gotasks_dashboard._permissions import Access
from gotasks_dashboard._problems import Problem, problem_of
from gotasks_py import AuditEntry, Auditing, GotasksError, Outcome, Store

logger = logging.getLogger("gotasks_dashboard.audit")

_LONGEST_ERROR: Final = 1_000
_counter = itertools.count()


@dataclass(frozen=True, slots=True)
class Trail:
    """Writes into the store; ``acted`` is called when something was done, or may have been."""

    store: Store
    acted: Callable[[AuditEntry], None]

    def entry(
        self, access: Access, action: str, target: Mapping[str, object], **details: object
    ) -> AuditEntry:
        """Begin to tell of something that somebody does."""
        return AuditEntry(
            id=_new_id(),
            at=self.store.clock.now(),
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
        if not isinstance(self.store, Auditing):
            return
        try:
            await self.store.audit(entry)
        except GotasksError as error:
            logger.error("the audit could not be written: %s", error)  # noqa: TRY400  - the cause is the store, not this code

    @asynccontextmanager
    async def recorded(
        self, access: Access, action: str, target: Mapping[str, object], **details: object
    ) -> AsyncGenerator[None]:
        """Write down what is done in the block, and what has become of it."""
        entry = self.entry(access, action, target, **details)
        try:
            yield
        except Exception as error:
            failed = replace(entry, outcome=Outcome.FAILED, error=_said(error)[:_LONGEST_ERROR])
            await self.record(failed)
            raise
        finally:
            self.acted(entry)
        await self.record(replace(entry, finished_at=self.store.clock.now()))


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
