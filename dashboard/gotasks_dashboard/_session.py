"""What the page has to know before it shows anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Nothing
from gotasks_dashboard._permissions import Permission
from gotasks_dashboard._query import qualifiers_of
from gotasks_dashboard._values import moment
from gotasks_py import Auditing, Controlling, Diagnosing, Metering
from gotasks_py.store import Watching


class CsrfView(TypedDict):
    """Where the host application's own token is, and how it wants it back."""

    cookie: str
    header: str


class LiveView(TypedDict):
    """How to stay up to date."""

    sse: bool
    poll_seconds: float


class QualifierView(TypedDict):
    """What can be searched for."""

    name: str
    hint: str


class SessionView(TypedDict):
    """Who looks, what they may do, and what there is to see."""

    version: str
    title: str
    base: str
    user: str | None
    permissions: Sequence[str]
    now: str
    panels: Sequence[str]
    features: Mapping[str, bool]
    is_loopback_default: bool
    csrf: CsrfView | None
    trace_url: str | None
    oldest_due_warning_seconds: float
    oldest_due_critical_seconds: float
    live: LiveView
    payload_search: bool
    qualifiers: Sequence[QualifierView]


async def session(desk: Desk, call: Call[Nothing, Nothing]) -> SessionView:
    """Tell what the page has to know."""
    settings = desk.settings
    permissions = call.access.permissions
    qualifiers = qualifiers_of(is_redacted=settings.redact is not None)
    return {
        "version": VERSION,
        "title": settings.title,
        "base": call.base,
        "user": call.access.user,
        "permissions": [each.value for each in Permission if each in permissions],
        "now": moment(desk.store.clock.now()) or "",
        "panels": list(_panels(desk, permissions)),
        "features": _features(desk),
        "is_loopback_default": settings.is_loopback_default,
        "csrf": _csrf(settings.csrf),
        "trace_url": settings.trace_url,
        "oldest_due_warning_seconds": settings.oldest_due_warning.total_seconds(),
        "oldest_due_critical_seconds": settings.oldest_due_critical.total_seconds(),
        "live": {"sse": True, "poll_seconds": 2.0},
        "payload_search": settings.redact is None and Permission.VIEW_PAYLOADS in permissions,
        "qualifiers": [{"name": name, "hint": hint} for name, hint in qualifiers.items()],
    }


def _panels(desk: Desk, permissions: frozenset[Permission]) -> Iterator[str]:
    yield from ("overview", "queues", "tasks", "types", "dead")
    if isinstance(desk.store, Metering):
        yield "nodes"
    yield "system"
    if isinstance(desk.store, Auditing) and Permission.VIEW_AUDIT in permissions:
        yield "audit"


def _features(desk: Desk) -> Mapping[str, bool]:
    store = desk.store
    return {
        "metrics": isinstance(store, Metering),
        "nodes": isinstance(store, Metering),
        "control": isinstance(store, Controlling),
        "audit": isinstance(store, Auditing),
        "watch": isinstance(store, Watching),
        "diagnose": isinstance(store, Diagnosing),
        "schemas": bool(desk.types),
        "schedules": False,
        "limits": False,
        "workflows": False,
    }


def _csrf(names: tuple[str, str] | None) -> CsrfView | None:
    return None if names is None else {"cookie": names[0], "header": names[1]}


def _installed_version() -> str:
    try:
        return version("gotasks-py")
    except PackageNotFoundError:
        return ""


VERSION: Final = _installed_version()

ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="session",
        summary="Who looks, what they may do, and what there is to see",
        handle=session,
        answer=SessionView,
    ),
)
