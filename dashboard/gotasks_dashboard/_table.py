"""All routes of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gotasks_dashboard import (
    _acting,
    _auditing,
    _bulk,
    _completing,
    _dead,
    _enqueueing,
    _events,
    _nodes,
    _reading,
    _series,
    _session,
    _system,
    _types,
)
from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Nothing
from gotasks_dashboard._openapi import document_of
from gotasks_dashboard._session import VERSION


async def openapi(desk: Desk, call: Call[Nothing, Nothing]) -> Mapping[str, object]:
    """Describe the API."""
    return document_of(ENDPOINTS, title=desk.settings.title, version=VERSION, base=call.base)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *_session.ENDPOINTS,
    *_enqueueing.ENDPOINTS,
    *_reading.ENDPOINTS,
    *_events.ENDPOINTS,
    *_series.ENDPOINTS,
    *_types.ENDPOINTS,
    *_dead.ENDPOINTS,
    *_completing.ENDPOINTS,
    *_system.ENDPOINTS,
    *_nodes.ENDPOINTS,
    *_acting.ENDPOINTS,
    *_bulk.ENDPOINTS,
    *_auditing.ENDPOINTS,
    Endpoint(
        method="GET",
        path="openapi.json",
        summary="This document",
        handle=openapi,
        answer=dict[str, object],
    ),
)
