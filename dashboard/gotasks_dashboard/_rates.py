"""How much has happened lately, from the windows that managers write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from typing_extensions import TypedDict

from gotasks_py import Metrics
from gotasks_py.task import EPOCH

MINUTE: Final = timedelta(minutes=1)
STEPS: Final = 30


class RatesView(TypedDict):
    """How many a minute."""

    enqueued: float
    done: float
    failed: float
    dead: float


class SparkView(TypedDict):
    """How many in each step, oldest first; the last step is not over."""

    step_seconds: float
    done: Sequence[int]
    failed: Sequence[int]


def rates_of(metrics: Metrics | None, now: datetime, queue: str | None = None) -> RatesView:
    """Estimate from this minute and a part of the last how many a minute there are."""
    found: RatesView = {"enqueued": 0.0, "done": 0.0, "failed": 0.0, "dead": 0.0}
    start = now - (now - EPOCH) % MINUTE
    part_of_last = 1 - (now - start) / MINUTE
    for window in () if metrics is None else metrics.windows:
        age = start - window.start
        if queue not in {None, window.queue} or age > MINUTE:
            continue
        counted = window.activity.counters
        part = 1.0 if age <= timedelta(0) else part_of_last
        found["enqueued"] += part * counted.enqueued
        found["done"] += part * counted.done
        found["failed"] += part * counted.failed
        found["dead"] += part * counted.dead
    return {
        "enqueued": round(found["enqueued"], 2),
        "done": round(found["done"], 2),
        "failed": round(found["failed"], 2),
        "dead": round(found["dead"], 2),
    }


def spark_of(metrics: Metrics | None, now: datetime, queue: str) -> SparkView:
    """Count what became of tasks of a queue, minute by minute."""
    done, failed = [0] * STEPS, [0] * STEPS
    start = now - (now - EPOCH) % MINUTE
    for window in () if metrics is None else metrics.windows:
        # Windows may be shorter than a minute.
        at = STEPS - 1 - (start - (window.start - (window.start - EPOCH) % MINUTE)) // MINUTE
        if window.queue == queue and 0 <= at < STEPS:
            done[at] += window.activity.counters.done
            failed[at] += window.activity.counters.failed
    return {"step_seconds": MINUTE.total_seconds(), "done": done, "failed": failed}
