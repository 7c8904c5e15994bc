"""What queues have to do, and how long their tasks take: what scaling judges by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from gotasks_py.autoscaling import QueueLoad
from gotasks_py.inspecting import QueueOverview
from gotasks_py.metering import Metering
from gotasks_py.task import Status

_RECENTLY: Final = timedelta(minutes=10)


async def run_times(store: object) -> Mapping[str, timedelta]:
    """Tell how long tasks of each queue have taken lately, as far as the store knows.

    Raises:
        StoreError: the database refused, or did not answer.
    """
    if not isinstance(store, Metering):
        return {}
    found = await store.metrics(since=_RECENTLY)
    queues = {window.queue for window in found.windows}
    means = {queue: found.total(queue).run.mean for queue in queues}
    return {queue: mean for queue, mean in means.items() if mean is not None}


def load_of(queue: QueueOverview, run_time: timedelta | None) -> QueueLoad:
    """Tell what a queue has to do."""
    pending = queue.counts[Status.PENDING].value if Status.PENDING in queue.counts else 0
    running = queue.counts[Status.RUNNING].value if Status.RUNNING in queue.counts else 0
    return QueueLoad(
        queue=queue.name,
        due=max(0, pending - queue.scheduled.value),
        running=running,
        oldest_due_age=queue.oldest_due_age or timedelta(0),
        run_time=run_time,
        weight=queue.policy.weight,
        is_paused=queue.pause is not None,
    )
