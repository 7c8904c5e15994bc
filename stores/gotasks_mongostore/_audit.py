"""The half of the store on MongoDB that keeps who did what: ``{namespace}_audit``."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.errors import BSONError

from gotasks_mongostore._indexes import Index, ensure_indexes
from gotasks_mongostore._part import Part
from gotasks_py.auditing import AuditEntry, AuditPage
from gotasks_py.inspecting import bad_cursor, check_page_size

INDEXES: Final = (
    Index("log", (("at", -1), ("_id", -1))),
    Index("by_user", (("user", 1), ("at", -1), ("_id", -1))),
    Index("by_action", (("action", 1), ("at", -1), ("_id", -1))),
    Index("ttl", (("expires_at", 1),), {"expireAfterSeconds": 0}),
)
LATEST_FIRST: Final = [("at", -1), ("_id", -1)]


class Audit(Part):
    """Keeps entries in a collection of their own, made when the first is written."""

    async def audit(self, entry: AuditEntry) -> None:
        await self.open()
        with self._operations.bounded("record what was done") as here:
            if not here.has_audit_indexes:
                await ensure_indexes(here.database, here.audit, INDEXES)
                here.has_audit_indexes = True
            await here.audit.replace_one({"_id": entry.id}, entry.to_document(), upsert=True)

    async def audit_log(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AuditPage:
        check_page_size(limit)
        given = {"user": user, "action": action}
        wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        index = "by_user" if user is not None else "by_action" if action is not None else "log"
        if cursor is not None:
            wanted |= _after(cursor)
        await self.reach()
        with self._operations.bounded("read what was done") as here:
            if not here.has_audit_indexes and not await here.audit.index_information():
                return AuditPage([])  # nothing was ever recorded
            found = await here.audit.find(
                wanted, sort=LATEST_FIRST, limit=limit + 1, hint=index
            ).to_list(None)
        entries = [AuditEntry.from_document(each) for each in found[:limit]]
        return AuditPage(entries, _cursor_of(entries[-1]) if len(found) > limit else None)

    async def audited(self, entry_id: str) -> AuditEntry | None:
        await self.reach()
        with self._operations.bounded("read what was done") as here:
            found = await here.audit.find_one({"_id": str(entry_id)})
        return None if found is None else AuditEntry.from_document(found)


def _cursor_of(entry: AuditEntry) -> str:
    return base64.urlsafe_b64encode(bson.encode({"at": entry.at, "_id": entry.id})).decode()


def after(at: object, entry: object) -> Mapping[str, object]:
    """Match what comes after an entry in the log."""
    return {"at": {"$lte": at}, "$or": [{"at": {"$lt": at}}, {"_id": {"$lt": entry}}]}


def _after(cursor: object) -> Mapping[str, object]:
    try:
        place = bson.decode(base64.urlsafe_b64decode(str(cursor).encode()))
        return after(place["at"], place["_id"])
    except (binascii.Error, BSONError, KeyError, ValueError) as error:
        raise bad_cursor(cursor) from error
