"""The engine's own counters, against what was stored and what the ledgers saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Final

from gotasks_chaos.evidence import Evidence, Stored
from gotasks_chaos.finding import Finding
from gotasks_chaos.work import QUEUE
from gotasks_mongostore import MongoStore

_SINCE: Final = timedelta(days=2)
"""Longer than any storm, and shorter than metrics are kept."""


async def counters(uri: str, database: str, namespace: str) -> dict[str, int]:
    """Read what all managers counted, over all windows."""
    store = await MongoStore.connect(uri, database=database, namespace=namespace)
    try:
        metrics = await store.metrics(since=_SINCE)
    finally:
        await store.aclose()
    return asdict(metrics.total(QUEUE).counters)


def counters_are_true(evidence: Evidence) -> Finding:
    """Check that no counter exceeds what happened, nor misses what must have been told."""
    finding = Finding()
    if evidence.counted is None:
        return finding
    told = _told(evidence)
    for name, happened in _happened(evidence).items():
        counted = evidence.counted.get(name, 0)
        if counted > happened:
            wrong = [f"metrics count {counted} {name}, and there were {happened}"]
        elif counted < told.get(name, 0):
            wrong = [f"metrics count {counted} {name}, and those who left saw {told[name]}"]
        else:
            wrong = []
        finding.look(iter(wrong))
    return finding


def _happened(evidence: Evidence) -> Mapping[str, int]:
    """Tell how often each thing happened, at the most."""
    ends = Counter(task.status for task in evidence.stored)
    entries = sum(len(task.errors) + task.errors_dropped for task in evidence.stored)
    claims = sum(task.attempts + task.interruptions for task in evidence.stored)
    gave_up = sum(_gave_up(task) for task in evidence.stored)
    return {
        "enqueued": len(evidence.stored),
        "claimed": claims,
        "done": ends["done"],
        "dead": ends["dead"],
        "cancelled": ends["cancelled"],
        "failed": entries,
        "retried": entries - gave_up,
        "interrupted": sum(task.interruptions for task in evidence.stored),
        "lease_lost": claims,
        "snoozed": 0,
        "requeued": 0,
    }


def _told(evidence: Evidence) -> Mapping[str, int]:
    """Tell how often each thing was surely counted by processes that left in order.

    A process that is killed takes along what it had not written yet. Metrics count what the
    database confirmed: where its answers are lost, that is less than what happened.
    """
    happened = _happened(evidence)
    if not all(process.has_left or process.never_began for process in evidence.processes):
        return _told_by_those_who_left(evidence) if evidence.is_undisturbed else {}
    if evidence.is_graceful:
        return {name: happened[name] for name in happened.keys() - {"lease_lost"}}
    if any(process.left_early for process in evidence.processes):
        return {}  # what they told as they left may have been in vain
    # Each is written until the answer is clear, and stays as it is then.
    return {
        "enqueued": sum(asked.answer == "ack" for asked in evidence.asked),
        "done": happened["done"],
        "dead": sum(_gave_up(task) for task in evidence.stored),
    }


def _told_by_those_who_left(evidence: Evidence) -> Mapping[str, int]:
    by_token = {run.token: run.process for run in evidence.executions}
    left = {process.name for process in evidence.processes if process.has_left}
    return Counter(
        task.status
        for task in evidence.stored
        if task.status == "done" and by_token.get(task.settled_by or "") in left
    )


def _gave_up(task: Stored) -> bool:
    """Whether its last attempt failed: the janitor leaves no mark where it ends one."""
    return task.status == "dead" == task.settled_as
