"""Whether the user of a URL may do what a manager does, as the server tells it of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gotasks_py.diagnosis import Finding, Severity

CHECK: Final = "rights"
REMEDY: Final = "give the user the role readWrite on this database"
_NEEDED: Final = ("find", "insert", "update", "remove", "listIndexes", "createIndex")


def judged(
    status: Mapping[str, Any], database: str, collections: Sequence[str]
) -> Iterator[Finding]:
    """Judge an answer to ``connectionStatus`` with privileges."""
    about = status.get("authInfo") or {}
    users = [each.get("user") for each in _documents(about.get("authenticatedUsers"))]
    if not users:
        yield Finding(
            Severity.OK, CHECK, "nobody is logged in, and the server answers all the same"
        )
        return
    privileges = _documents(about.get("authenticatedUserPrivileges"))
    name = ", ".join(map(repr, users))
    is_fit = True
    for collection in collections:
        allowed = _allowed(privileges, database, collection)
        missing = [action for action in _NEEDED if action not in allowed]
        if missing:
            is_fit = False
            said = f"user {name} may not {', '.join(missing)} in {database}.{collection}"
            yield Finding(Severity.ERROR, CHECK, said, REMEDY)
    if is_fit and "changeStream" not in _allowed(privileges, database, ""):
        said = f"user {name} may not follow changes of {database}: tasks are found by polling"
        yield Finding(Severity.WARNING, CHECK, said, REMEDY)
    elif is_fit:
        yield Finding(Severity.OK, CHECK, f"user {name} may do all that managers do")


def _allowed(
    privileges: Sequence[Mapping[str, Any]], database: str, collection: str
) -> frozenset[str]:
    return frozenset(
        str(action)
        for privilege in privileges
        if _covers(privilege.get("resource") or {}, database, collection)
        for action in privilege.get("actions") or ()
    )


def _covers(resource: Mapping[str, Any], database: str, collection: str) -> bool:
    if resource.get("anyResource"):
        return True
    # An empty name is every database, or every collection.
    is_there = resource.get("db") in {"", database}
    return is_there and resource.get("collection") in {"", collection}


def _documents(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
