"""All routes of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gotasks_dashboard import _reading, _session
from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Nothing
from gotasks_dashboard._openapi import document_of
from gotasks_dashboard._session import VERSION


async def openapi(desk: Desk, call: Call[Nothing, Nothing]) -> Mapping[str, object]:
    """Describe the API."""
    return document_of(ENDPOINTS, title=desk.settings.title, version=VERSION, base=call.base)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *_session.ENDPOINTS,
    *_reading.ENDPOINTS,
    Endpoint(
        method="GET",
        path="openapi.json",
        summary="This document",
        handle=openapi,
        answer=dict[str, object],
    ),
)
