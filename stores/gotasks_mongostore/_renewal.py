"""Renewing many leases in one write, from the event loop or from a thread.

What to send and how to read the answer is written once; the two callers differ in how
they wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pymongo
from pymongo import MongoClient, UpdateMany
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.collection import Collection

from gotasks_mongostore._driver import Document
from gotasks_mongostore._failures import translated
from gotasks_mongostore._filters import held_any
from gotasks_mongostore._render import render
from gotasks_py.lifecycle import extended
from gotasks_py.store import Renewal, Renewed

_FOUND_FIELDS = {"lease.token": 1, "cancel_requested_at": 1}


async def renew(tasks: AsyncCollection[Document], renewals: Sequence[Renewal]) -> Renewed:
    """Renew from the event loop."""
    result = await tasks.bulk_write(_writes(renewals), ordered=False)
    if result.matched_count == len(renewals):
        return Renewed()
    held = held_any(renewals, unless_asked=False)
    found = await tasks.find(held, _FOUND_FIELDS, hint="_id_").to_list(None)
    renewed, asked = _told(renewals, found)
    if asked:
        await tasks.bulk_write(_writes(asked, unless_asked=False), ordered=False)
    return renewed


class BlockingRenewer:
    """Renews from a thread, over a connection of its own."""

    def __init__(
        self, client: MongoClient[Document], tasks: Collection[Document], timeout: timedelta
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._timeout = timeout

    def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        tasks = self._tasks
        with translated("renew leases"), pymongo.timeout(self._timeout.total_seconds()):
            result = tasks.bulk_write(_writes(renewals), ordered=False)
            if result.matched_count == len(renewals):
                return Renewed()
            held = held_any(renewals, unless_asked=False)
            found = tasks.find(held, _FOUND_FIELDS, hint="_id_").to_list()
            renewed, asked = _told(renewals, found)
            if asked:
                tasks.bulk_write(_writes(asked, unless_asked=False), ordered=False)
        return renewed

    def close(self) -> None:
        self._client.close()


def _writes(renewals: Sequence[Renewal], *, unless_asked: bool = True) -> list[UpdateMany]:
    """Make one update for each length of lease; usually there is just one.

    A task that was asked to stop is left out of the match unless that is known, so that a
    count which falls short tells of the request without a read in every beat.
    """
    groups: dict[tuple[timedelta, bool], list[Renewal]] = {}
    for renewal in renewals:
        key = (renewal.lease, unless_asked and not renewal.cancelling)
        groups.setdefault(key, []).append(renewal)
    return [
        UpdateMany(held_any(group, unless_asked=unasked), render(extended(lease)), hint="_id_")
        for (lease, unasked), group in groups.items()
    ]


def _told(
    renewals: Sequence[Renewal], found: Sequence[Mapping[str, object]]
) -> tuple[Renewed, list[Renewal]]:
    held: dict[object, bool] = {}
    for document in found:
        lease = document.get("lease")
        token = lease.get("token") if isinstance(lease, dict) else None
        held[token] = document.get("cancel_requested_at") is not None
    lost = frozenset(each.ref.token for each in renewals if each.ref.token not in held)
    asked = [each for each in renewals if held.get(each.ref.token) and not each.cancelling]
    known = [each for each in renewals if held.get(each.ref.token) and each.cancelling]
    tokens = frozenset(each.ref.token for each in (*asked, *known))
    return Renewed(lost, tokens), asked
