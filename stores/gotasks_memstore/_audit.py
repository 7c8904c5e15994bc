"""The half of the store in memory that keeps who did what."""

from __future__ import annotations

import copy
import threading
from datetime import datetime

from gotasks_py.auditing import KEPT, AuditEntry, AuditPage
from gotasks_py.clock import Clock
from gotasks_py.inspecting import bad_cursor, check_page_size


class Audit:
    """Keeps entries beside the tasks."""

    _lock: threading.RLock
    _clock: Clock
    _audit: dict[str, AuditEntry]

    async def audit(self, entry: AuditEntry) -> None:
        with self._lock:
            self._audit[entry.id] = copy.deepcopy(entry)

    async def audit_log(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AuditPage:
        check_page_size(limit)
        after = None if cursor is None else _place(cursor)
        with self._lock:
            since = self._clock.now() - KEPT
            self._audit = {key: each for key, each in self._audit.items() if each.at > since}
            entries = copy.deepcopy(sorted(self._audit.values(), key=_order, reverse=True))
        found = [
            each
            for each in entries
            if user in {None, each.user}
            and action in {None, each.action}
            and (after is None or _order(each) < after)
        ]
        is_more = len(found) > limit
        return AuditPage(found[:limit], _cursor(found[limit - 1]) if is_more else None)

    async def audited(self, entry_id: str) -> AuditEntry | None:
        with self._lock:
            return copy.deepcopy(self._audit.get(entry_id))


def _order(entry: AuditEntry) -> tuple[datetime, str]:
    return entry.at, entry.id


def _cursor(entry: AuditEntry) -> str:
    return f"{entry.at.isoformat()} {entry.id}"


def _place(cursor: object) -> tuple[datetime, str]:
    at, _, entry = str(cursor).partition(" ")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError as error:
        raise bad_cursor(cursor) from error
    if moment.utcoffset() is None:
        raise bad_cursor(cursor)
    return moment, entry
