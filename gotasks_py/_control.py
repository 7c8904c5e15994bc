"""What a handler may do to its own attempt, behind ``TaskContext``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from gotasks_py._running import Returned, Running, StopReason
from gotasks_py.checks import check_lease
from gotasks_py.codec import codec_for
from gotasks_py.errors import LeaseLostError
from gotasks_py.lifecycle import Patch, completed, extended, progressed
from gotasks_py.store import Session, Store
from gotasks_py.task import Lease

_PROGRESS_LIMIT: Final = 64 * 1024
_PROGRESS: Final = codec_for(dict[str, Any])


@dataclass(frozen=True, slots=True)
class AttemptControl:
    """Implements :class:`gotasks_py.context.Attempt` over the store."""

    store: Store
    running: Running
    lease_changed: Callable[[], None]
    encode_result: Callable[[object], Returned]

    @property
    def is_stopping(self) -> bool:
        scope = self.running.scope
        return self.running.is_over or (scope is not None and scope.cancel_called)

    async def extend(self, lease: timedelta | None) -> Lease:
        length = self.running.lease if lease is None else lease
        check_lease("lease", length)
        sent = self.store.clock.monotonic()
        # First, so that a renewal which is sent from here on has the new length.
        self.running.lease = length
        await self._write(extended(length))
        self.running.deadline = sent + length.total_seconds()
        self.lease_changed()
        held = self.running.task.lease
        assert held is not None  # noqa: S101  - a claim always sets it
        return replace(held, until=self.store.clock.now() + length)

    async def is_held(self) -> bool:
        return await self.store.is_held(self.running.ref)

    async def progress(self, progress: object) -> None:
        document = _PROGRESS.encode({"progress": progress}, limit=_PROGRESS_LIMIT, what="progress")
        await self._write(progressed(document["progress"]))

    @asynccontextmanager
    async def transaction(self, result: object) -> AsyncGenerator[Session]:
        running = self.running
        completion = self.encode_result(result)
        running.is_in_transaction = True
        try:
            await self.extend(None)
            async with self.store.transaction() as session:
                yield session
                patch = completed(completion.document)
                if not await self.store.settle(running.ref, patch, session=session):
                    raise LeaseLostError(running.task.id)
            running.completion = completion
        finally:
            running.is_in_transaction = False
            self.lease_changed()

    async def _write(self, patch: Patch) -> None:
        if not await self.store.settle(self.running.ref, patch):
            self.running.stop(StopReason.LEASE_LOST)
            raise LeaseLostError(self.running.task.id)
