"""The route that tells of changes as they happen: server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Nothing
from gotasks_dashboard._jobs import JobView, job_view
from gotasks_dashboard._live import Changes, Overview
from gotasks_dashboard._permissions import Access
from gotasks_dashboard._problems import Problem, problem_of
from gotasks_dashboard._values import dumped, moment
from gotasks_py import GotasksError

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_MOST_LOOKERS: Final = 500
_ALIVE_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 3600.0
_JUDGED_SECONDS: Final = 30.0
_RETRY: Final = b"retry: 2000\n\n"
_ALIVE: Final = b": alive\n\n"


class ChangedView(TypedDict):
    """What has changed."""

    everything: bool
    queues: Sequence[str]
    ids: Sequence[str]
    nodes: bool


class UpdateView(TypedDict):
    """What the event ``update`` tells; the overview only where it is another."""

    at: str
    changed: ChangedView
    overview: Overview | None
    jobs: Sequence[JobView]


class _Events(StreamingResponse):
    """Counts as a looker for as long as it is sent, however that ends."""

    def __init__(self, desk: Desk, call: Call[Nothing, Nothing]) -> None:
        super().__init__(_stream(desk, call), 200, _HEADERS, "text/event-stream")
        self._live = desk.live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._live.looking():
            await super().__call__(scope, receive, send)


async def events(desk: Desk, call: Call[Nothing, Nothing]) -> Response:
    """Tell of changes as they happen."""
    if desk.live.lookers >= _MOST_LOOKERS:
        detail = f"{_MOST_LOOKERS} are told of changes already; ask for the overview now and then"
        raise Problem(503, "too_many_streams", detail, headers={"Retry-After": "30"})
    return _Events(desk, call)


async def _stream(desk: Desk, call: Call[Nothing, Nothing]) -> AsyncGenerator[bytes]:
    began = judged = anyio.current_time()
    version = desk.live.version
    access = call.access
    yield _RETRY
    yield await _first(desk, access)
    while anyio.current_time() < began + _LONGEST_SECONDS:
        if anyio.current_time() > judged + _JUDGED_SECONDS:
            try:
                access = await call.judge()
            except (Problem, HTTPException):
                return
            judged = anyio.current_time()
        changes = None
        with anyio.move_on_after(_ALIVE_SECONDS):
            version, changes = await desk.live.after(version)
        yield _ALIVE if changes is None else _written(desk, changes, access)


async def _first(desk: Desk, access: Access) -> bytes:
    try:
        overview = await desk.live.overview()
        return _written(desk, Changes(everything=True, overview=overview), access)
    except GotasksError as error:
        return _event("problem", problem_of(error).body)


def _written(desk: Desk, changes: Changes, access: Access) -> bytes:
    told = b"" if changes.problem is None else _event("problem", problem_of(changes.problem).body)
    if changes.overview is None and changes.problem is not None:
        return told
    update: UpdateView = {
        "at": moment(desk.store.clock.now()) or "",
        "changed": {
            "everything": changes.everything,
            "queues": sorted(changes.queues),
            "ids": [] if changes.everything else sorted(changes.ids),
            "nodes": changes.nodes or changes.everything,
        },
        "overview": changes.overview,
        "jobs": [job_view(each, access) for each in changes.jobs.values()],
    }
    return told + _event("update", update)


def _event(name: str, data: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + dumped(data) + b"\n\n"


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="events",
        summary="Changes as they happen, as server-sent events",
        handle=events,
        answer=str,
        media_type="text/event-stream",
    ),
)
