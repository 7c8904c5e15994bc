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
    """Check that no counter exceeds what happened, and that without kills all are equal."""
    finding = Finding()
    if not evidence.counted:
        return finding
    told = {each.name for each in evidence.processes if each.code == 0}
    if not any(evidence.counted.values()) and any(
        run.process in told and run.how == "returned" for run in evidence.executions
    ):
        finding.look(iter(["metrics count nothing, and managers left that had run tasks"]))
    for name, happened in _happened(evidence).items():
        counted = evidence.counted.get(name, 0)
        if counted > happened or (evidence.is_graceful and counted < happened):
            finding.look(iter([f"metrics count {counted} {name}, and there were {happened}"]))
        else:
            finding.look(iter(()))
    return finding


def _happened(evidence: Evidence) -> Mapping[str, int]:
    ends = Counter(task.status for task in evidence.stored)
    return {
        "enqueued": len(evidence.stored),
        "done": ends["done"],
        "dead": ends["dead"],
        "cancelled": ends["cancelled"],
        "failed": sum(len(task.errors) + task.errors_dropped for task in evidence.stored),
        "interrupted": sum(task.interruptions for task in evidence.stored),
    }
