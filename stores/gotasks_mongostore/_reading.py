"""Reading what a claim has taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bson import Decimal128

from gotasks_py.store import ClaimRequest
from gotasks_py.task import Task


def claimed_task(document: Mapping[str, object], request: ClaimRequest) -> Task:
    """Read a task in the lane in which the claim has found it: the fence names that one."""
    task = Task.from_document(document)
    lane = _lane_of(document, request)
    return task if lane == task.lane else replace(task, lane=lane)


def _lane_of(document: Mapping[str, object], request: ClaimRequest) -> int:
    stored = document.get("lane")
    if type(stored) is int and stored in request.lanes:
        return stored
    # A hand may have written a number of another type, or several: the server compares all.
    for value in stored if isinstance(stored, list) else [stored]:
        number = value.to_decimal() if isinstance(value, Decimal128) else value
        for lane in request.lanes:
            if number == lane and not isinstance(number, bool):
                return lane
    return request.lanes[0]
