"""What operators ask and decide, for code that is not async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from gotasks_py._bulk_operations import BulkReport, Progress
from gotasks_py._oversight import Oversight
from gotasks_py._steering import Steering
from gotasks_py.backoff import Backoff
from gotasks_py.explaining import Explanation
from gotasks_py.inspecting import Count, DeadPage, QueueOverview, TaskFilter, TaskPage

T = TypeVar("T")


class SyncOperator:
    """The part of ``manager.sync`` for operators; see the methods of ``Manager``.

    ``progress`` of an operation on many tasks is called in the thread of the event loop.
    """

    _oversight: Oversight
    _steering: Steering

    def _call(self, operation: Callable[[], Awaitable[T]]) -> T:
        raise NotImplementedError

    def overview(self, queue: str | None = None) -> Sequence[QueueOverview]:
        """Tell how queues are doing; see ``Manager.overview``."""
        return self._call(partial(self._oversight.overview, queue))

    def explain(self, task_id: object) -> Explanation:
        """Tell why a task is not running; see ``Manager.explain``."""
        return self._call(partial(self._oversight.explain, task_id))

    def find_tasks(
        self,
        wanted: TaskFilter | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
    ) -> TaskPage:
        """List tasks, page by page; see ``Manager.find_tasks``."""
        find = partial(self._oversight.find_tasks, limit=limit, cursor=cursor)
        return self._call(partial(find, wanted, newest_first=newest_first))

    def count_tasks(self, wanted: TaskFilter | None = None, *, limit: int = 10_000) -> Count:
        """Count tasks up to a limit; see ``Manager.count_tasks``."""
        return self._call(partial(self._oversight.count_tasks, wanted, limit=limit))

    def dead_letters(
        self, queue: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> DeadPage:
        """Group dead letters by what they died of; see ``Manager.dead_letters``."""
        group = partial(self._oversight.dead_letters, queue, limit=limit, cursor=cursor)
        return self._call(group)

    def requeue_tasks(
        self,
        wanted: TaskFilter,
        *,
        fresh_lifetime: bool = False,
        per_second: int = 2_000,
        progress: Progress | None = None,
    ) -> BulkReport:
        """Bring back dead letters by filter; see ``Manager.requeue_tasks``."""
        requeue = partial(self._oversight.requeue_tasks, wanted, fresh_lifetime=fresh_lifetime)
        return self._call(partial(requeue, per_second=per_second, progress=progress))

    def cancel_tasks(
        self, wanted: TaskFilter, *, per_second: int = 2_000, progress: Progress | None = None
    ) -> BulkReport:
        """Cancel tasks by filter; see ``Manager.cancel_tasks``."""
        cancel = partial(self._oversight.cancel_tasks, wanted)
        return self._call(partial(cancel, per_second=per_second, progress=progress))

    def delete_tasks(
        self, wanted: TaskFilter, *, per_second: int = 2_000, progress: Progress | None = None
    ) -> BulkReport:
        """Remove tasks by filter; see ``Manager.delete_tasks``."""
        delete = partial(self._oversight.delete_tasks, wanted)
        return self._call(partial(delete, per_second=per_second, progress=progress))

    def pause(
        self, queue: str, *, until: datetime | timedelta | None = None, by: str | None = None
    ) -> None:
        """Let nobody claim from a queue; see ``Manager.pause``."""
        self._call(partial(self._steering.pause, queue, until=until, by=by))

    def resume(self, queue: str) -> None:
        """Let a queue be claimed from again; see ``Manager.resume``."""
        self._call(partial(self._steering.resume, queue))

    def set_queue_policy(  # noqa: PLR0913  - as there
        self,
        queue: str,
        *,
        ttl: timedelta | None = None,
        max_attempts: int | None = None,
        timeout: timedelta | None = None,
        backoff: Backoff | None = None,
        weight: int | None = None,
        workers: int | None = None,
        lanes: int | None = None,
    ) -> None:
        """Change what is given of a queue's policy; see ``Manager.set_queue_policy``."""
        change = partial(self._steering.set_queue_policy, queue, ttl=ttl, timeout=timeout)
        change = partial(change, max_attempts=max_attempts, backoff=backoff)
        self._call(partial(change, weight=weight, workers=workers, lanes=lanes))

    def reset_queue_policy(self, queue: str) -> None:
        """Let a queue's policy be as declared again; see ``Manager.reset_queue_policy``."""
        self._call(partial(self._steering.reset_queue_policy, queue))

    def quiet_node(self, node: str) -> None:
        """Let one manager claim nothing more; see ``Manager.quiet_node``."""
        self._call(partial(self._steering.quiet_node, node))

    def drain_node(self, node: str) -> None:
        """Let one manager finish what it runs, and stop; see ``Manager.drain_node``."""
        self._call(partial(self._steering.drain_node, node))

    def wake_node(self, node: str) -> None:
        """Let a manager that is quiet claim again; see ``Manager.wake_node``."""
        self._call(partial(self._steering.wake_node, node))
