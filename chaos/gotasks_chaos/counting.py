"""The engine's own counters, against what was stored and what the ledgers saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from gotasks_chaos.evidence import Evidence
from gotasks_chaos.finding import Finding
from gotasks_chaos.work import QUEUE
from gotasks_mongostore import MongoStore


async def counters(uri: str, database: str, namespace: str) -> dict[str, int]:
    """Read what all managers counted, over all windows."""
    store = await MongoStore.connect(uri, database=database, namespace=namespace)
    try:
        metrics = await store.metrics(since=timedelta(days=1))
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
            wrong = [f"metrics count {counted} {name}, and {told[name]} were told"]
        else:
            wrong = []
        finding.look(iter(wrong))
    return finding


def _happened(evidence: Evidence) -> Mapping[str, int]:
    """Tell how often each thing happened, at the most."""
    ends = Counter(task.status for task in evidence.stored)
    entries = sum(len(task.errors) + task.errors_dropped for task in evidence.stored)
    claims = sum(task.attempts + task.interruptions for task in evidence.stored)
    gave_up = sum(task.status == "dead" == task.settled_as for task in evidence.stored)
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
    """Tell how often each thing was counted by a process that left in order, at the least.

    A process that is killed takes along what it had not written yet. That a lease ended
    is seen by whoever comes next, and is no failure of a handler.
    """
    happened = _happened(evidence)
    if all(process.has_left for process in evidence.processes):
        lapses = sum(entry.is_lapse for task in evidence.stored for entry in task.errors)
        seen_by_others = {"failed": lapses, "retried": lapses}
        exact = happened.keys() - {"lease_lost"}
        return {name: happened[name] - seen_by_others.get(name, 0) for name in exact}
    if not evidence.is_undisturbed:  # what they told as they left may have been in vain
        return {}
    by_token = {run.token: run.process for run in evidence.executions}
    left = {process.name for process in evidence.processes if process.has_left}
    return Counter(
        task.status
        for task in evidence.stored
        if task.status == "done" and by_token.get(task.settled_by or "") in left
    )
