"""Who may do what: named permissions, and whom to let in where nobody has said."""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from starlette.requests import Request

from gotasks_dashboard._problems import Problem


class Permission(StrEnum):
    """What somebody may do on the dashboard; ``set(Permission)`` is everything."""

    VIEW = "view"
    """See anything at all: queues, tasks without their payloads, managers, metrics."""
    VIEW_PAYLOADS = "view_payloads"
    """See payloads, results, progress, metadata and tracebacks, and search payloads."""
    VIEW_AUDIT = "view_audit"
    """See who did what."""
    ENQUEUE = "enqueue"
    """Enqueue tasks."""
    REQUEUE = "requeue"
    """Bring dead letters back."""
    CANCEL = "cancel"
    """Cancel tasks."""
    DELETE = "delete"
    """Delete tasks."""
    EDIT_QUEUES = "edit_queues"
    """Pause and resume queues, and change their policies."""
    CONTROL_NODES = "control_nodes"
    """Let managers be quiet, or drain."""


Authorize: TypeAlias = Callable[
    [Request], Collection[Permission] | Awaitable[Collection[Permission]]
]
"""Tells what the sender of a request may do; nothing, or ``()``, refuses the request."""

Identify: TypeAlias = Callable[[Request], str | None]
"""Tells who sends a request, for the audit and for others to read."""

READ_ONLY: Final = frozenset({Permission.VIEW, Permission.VIEW_PAYLOADS, Permission.VIEW_AUDIT})

_FORWARDING: Final = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
)
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LONGEST_USER: Final = 100


@dataclass(frozen=True, slots=True)
class Access:
    """What one request may do, and whose it is."""

    permissions: frozenset[Permission]
    user: str | None

    def demand(self, *one_of: Permission) -> None:
        """Refuse what is not permitted.

        Raises:
            Problem: 403, naming a permission that would do.
        """
        if self.permissions.isdisjoint(one_of):
            detail = f"this takes the permission {' or '.join(one_of)}"
            raise Problem(403, "forbidden", detail, permission=one_of[0].value)


def local_only(*permissions: Permission) -> Authorize:
    """Make an ``authorize`` that lets clients on this machine do something, and nobody else.

    Requests that came through a proxy are refused, for all of them come from this machine;
    so are those for another host name, which a foreign page may have pointed here. A proxy on
    this machine that adds no header and rewrites the host cannot be told apart: behind one,
    give an ``authorize`` that knows users.
    """
    granted = frozenset(permissions)
    return lambda request: granted if _is_local(request) else frozenset()


def _is_local(request: Request) -> bool:
    client = request.client
    is_forwarded = any(name in request.headers for name in _FORWARDING)
    host = request.headers.get("host", "").lower()
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if client is None or is_forwarded or name not in _LOCAL_NAMES:
        return False
    try:
        return ipaddress.ip_address(client.host).is_loopback
    except ValueError:
        return False


def user_of(request: Request) -> str | None:
    """Tell whom Starlette's authentication has recognised, else where the request came from."""
    user = request.scope.get("user")
    if user is not None and getattr(user, "is_authenticated", False):
        return str(getattr(user, "display_name", "") or user)
    return request.client.host if request.client else None


async def access_of(request: Request, authorize: Authorize, identify: Identify) -> Access:
    """Ask what a request may do.

    Raises:
        Problem: 403: not even to look.
    """
    found = authorize(request)
    granted = await found if inspect.isawaitable(found) else found
    permissions = frozenset(Permission(each) for each in granted or ())
    access = Access(permissions, _name(identify(request)))
    access.demand(Permission.VIEW)
    return access


def _name(user: str | None) -> str | None:
    """Make a name that can be recorded of whatever was told."""
    shown = "".join(each for each in user or "" if each.isprintable())[:_LONGEST_USER].strip()
    return shown.lstrip("$") or None
