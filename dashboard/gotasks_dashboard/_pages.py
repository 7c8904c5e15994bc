"""The page and its files. They come from the package; nothing else can be named."""

from __future__ import annotations

import hashlib
import html
import mimetypes
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from gotasks_dashboard._problems import Problem

PATHS: Final = (
    "queues",
    "tasks",
    "tasks/{id}",
    "new",
    "types",
    "dead",
    "nodes",
    "system",
    "audit",
    "jobs",
)
"""Where the page may be opened, besides at its root."""

_ASKED_ANEW: Final = {"Cache-Control": "no-cache"}
_BASE: Final = b"__BASE__"
_SAID: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<h1>{title}</h1>
<p>{detail}</p>
</html>
"""
_TYPES: Final = {".js": "text/javascript", ".map": "application/json", ".woff2": "font/woff2"}


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    media_type: str
    etag: str


def base_of(request: Request) -> str:
    """Tell the path that everything lies below, as URLs write it; it ends with a slash."""
    root: str = request.scope.get("root_path", "")
    return f"{quote(root.rstrip('/'))}/"


async def page(request: Request, status: int = 200) -> Response:
    """Serve the page, which reads from its address what to show."""
    found = _found("index.html")
    base = html.escape(base_of(request)).encode()
    return Response(found.data.replace(_BASE, base), status, _ASKED_ANEW, "text/html")


def is_opened(request: Request) -> bool:
    """Whether somebody opens an address in a browser, who would not read JSON."""
    accepted = request.headers.get("accept", "")
    return request.method in {"GET", "HEAD"} and "text/html" in accepted


def is_of_page(request: Request) -> bool:
    """Whether an address is one for people, and not of the API or of a file."""
    below = request.scope["path"].removeprefix(request.scope.get("root_path", "")).lstrip("/")
    return below.partition("/")[0] not in {"api", "static"}


def said(problem: Problem) -> Response:
    """Tell somebody who may not even have the page's files what is wrong."""
    title, detail = html.escape(str(problem.body["title"])), html.escape(str(problem))
    text = _SAID.format(title=title, detail=detail)
    return Response(text, problem.status, problem.headers, "text/html")


async def to_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Lead from where the dashboard is mounted to its page, which ends with a slash."""
    await RedirectResponse(base_of(Request(scope)))(scope, receive, send)


async def static(request: Request) -> Response:
    """Serve one of the files."""
    found = _found(request.path_params["path"])
    headers = {**_ASKED_ANEW, "ETag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, 200, headers, found.media_type)


def _found(path: str) -> _File:
    at: Traversable = files(__name__.partition(".")[0]) / "static"
    for name in path.split("/"):
        # Only what is listed can be had, so no name leads out of the folder.
        inside = {each.name: each for each in at.iterdir()} if at.is_dir() else {}
        if name not in inside:
            raise HTTPException(404, f"there is no {path!r:.200}")
        at = inside[name]
    if not at.is_file():
        raise HTTPException(404, f"there is no {path!r:.200}")
    data = at.read_bytes()
    suffix = f".{at.name.rpartition('.')[2]}"
    guessed = _TYPES.get(suffix) or mimetypes.guess_type(at.name)[0]
    etag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
    return _File(data, guessed or "application/octet-stream", etag)
