"""The ASGI application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from gotasks_dashboard._desk import Desk, Redact, Settings
from gotasks_dashboard._overview import overview_of
from gotasks_dashboard._pages import PATHS, page, static, to_page
from gotasks_dashboard._permissions import (
    READ_ONLY,
    Authorize,
    Identify,
    access_of,
    local_only,
    user_of,
)
from gotasks_dashboard._security import HEADERS
from gotasks_dashboard._serving import ACCESS, JUDGE, Serve, refused, server_of
from gotasks_dashboard._table import ENDPOINTS
from gotasks_py import ConfigurationError, Manager, Store, TaskType
from gotasks_py.checks import check_duration, check_name

_SHORTEST: Final = timedelta(milliseconds=100)
_LONGEST: Final = timedelta(minutes=5)


class Dashboard:
    """An ASGI application; made by :func:`dashboard`."""

    def __init__(self, desk: Desk, authorize: Authorize, identify: Identify) -> None:
        self._authorize = authorize
        self._identify = identify
        handlers: Any = {HTTPException: refused}
        self._app = Starlette(exception_handlers=handlers)
        self._app.router = Router(_routes(desk), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        protected = _protected(send)
        scope = _placed(scope)
        request = Request(scope, receive)
        try:
            scope[JUDGE] = judge = partial(access_of, request, self._authorize, self._identify)
            scope[ACCESS] = await judge()
        except Exception as error:  # noqa: BLE001  - whatever it is, nobody gets in
            await (await refused(request, error))(scope, receive, protected)
            return
        app = to_page if scope["path"] in {"", scope.get("root_path")} else self._app
        await app(scope, receive, protected)


def dashboard(  # noqa: PLR0913  - each setting has a default
    store: Store | Manager,
    *,
    authorize: Authorize | None = None,
    identify: Identify = user_of,
    redact: Redact | None = None,
    types: Sequence[TaskType[Any, Any]] = (),
    title: str = "gotasks",
    trace_url: str | None = None,
    csrf: tuple[str, str] | None = None,
    oldest_due_warning: timedelta = timedelta(minutes=1),
    oldest_due_critical: timedelta = timedelta(minutes=10),
    patience: timedelta = timedelta(seconds=5),
) -> Dashboard:
    """Make the dashboard of a store: an ASGI application to be mounted, or run alone.

    It needs no lifespan. Closed by default: without ``authorize`` clients on this machine may
    look, and everybody else is refused.

    Args:
        store: The store, or a manager on it. A manager's handlers say what payloads look
            like, so that tasks can be enqueued by forms.
        authorize: Called with each request, plain or async; returns what its sender may do.
            It may raise Starlette's ``HTTPException``, such as a redirect to a login.
        identify: Tells who sends a request, for the audit. Default: the user that Starlette's
            authentication has recognised, else the client's address.
        redact: Makes of a task what may be shown of it, such as by ``dataclasses.replace``.
            Called for each task, in lists too, where it has no payload. Payloads, messages of
            errors, tags and unique keys can then not be searched.
        types: Types of task to be enqueued by forms, besides those of the manager's handlers.
        title: What the page is called.
        trace_url: Where traces are seen: a URL with ``{trace_id}`` in it.
        csrf: The cookie and the header by which the host application wants its token back.
        oldest_due_warning, oldest_due_critical: From which age of the first task in line on
            a queue is marked. Default: 1 and 10 minutes.
        patience: How long one look at the store may take. Default: 5 s.

    Raises:
        ConfigurationError: an argument is of another kind, or out of its bounds.
    """
    manager = store if isinstance(store, Manager) else Manager(store, name="dashboard")
    _check_functions(authorize=authorize, identify=identify, redact=redact)
    check_name("title", title)
    check_duration("patience", patience, minimum=_SHORTEST, maximum=_LONGEST)
    for task_type in types:
        if not isinstance(task_type, TaskType):  # pyright: ignore[reportUnnecessaryIsInstance]  - users without a type checker
            msg = f"types must be TaskType(...) values, not {task_type!r}"
            raise ConfigurationError(msg)
    settings = Settings(
        title=title,
        redact=redact,
        trace_url=trace_url,
        csrf=csrf,
        oldest_due_warning=oldest_due_warning,
        oldest_due_critical=oldest_due_critical,
        patience=patience,
        is_loopback_default=authorize is None,
    )
    known = {(each.queue, each.name): each for each in (*manager.task_types, *types)}
    desk = Desk(
        store=manager.store, manager=manager, types=known, settings=settings, overview=overview_of
    )
    return Dashboard(desk, authorize or local_only(*READ_ONLY), identify)


def _placed(scope: Scope) -> Scope:
    """Name the prefix that a host has taken off the path without saying so, as Litestar 2 does."""
    whole = unquote(scope.get("raw_path", b"").decode("latin-1"))
    rest = scope["path"].rstrip("/")
    prefix = whole.rstrip("/").removesuffix(rest)
    if scope.get("root_path") or not prefix or prefix + rest != whole.rstrip("/"):
        return scope
    slash = "/" if whole.endswith("/") else ""
    return {**scope, "root_path": prefix, "path": rest + slash}


def _routes(desk: Desk) -> Sequence[Route]:
    by_path: dict[str, dict[str, Serve]] = {}
    for each in ENDPOINTS:
        by_path.setdefault(each.path, {})[each.method] = server_of(each, desk)
    routes = [
        # One route for all methods of a path, so that a refusal can tell which there are.
        Route(f"/api/{path}", partial(_by_method, servers), methods=list(servers))
        for path, servers in by_path.items()
    ]
    pages = [Route(f"/{path}", page) for path in ("", *PATHS)]
    return [*routes, *pages, Route("/static/{path:path}", static)]


async def _by_method(servers: Mapping[str, Serve], request: Request) -> Response:
    return await servers["GET" if request.method == "HEAD" else request.method](request)


def _protected(send: Send) -> Send:
    """Add the headers that every answer has."""

    async def send_protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)

    return send_protected


def _check_functions(**functions: object) -> None:
    for name, function in functions.items():
        if function is not None and not callable(function):
            msg = f"{name} must be a function, not {function!r}"
            raise ConfigurationError(msg)
