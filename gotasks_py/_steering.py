"""What operators decide about queues and managers while they run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from gotasks_py._recorded import RecordedQueues
from gotasks_py.backoff import Backoff
from gotasks_py.checks import check_duration, check_moment, check_name
from gotasks_py.controls import Controlling, NodeOrder, QueueChanges
from gotasks_py.errors import ConfigurationError, UnknownQueueError
from gotasks_py.metering import Metering
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import Store


class Steering:
    """The part of a manager that steers all managers of its store.

    What is decided here is stored, so it outlives every process. Managers that run follow
    within a second, and those that start do before their first claim.
    """

    _store: Store
    _queues: Mapping[str, QueuePolicy]
    _recorded: RecordedQueues

    async def _reached(self) -> None:
        raise NotImplementedError

    async def _register(self, queue: QueuePolicy) -> None:
        raise NotImplementedError

    async def pause(
        self,
        queue: str,
        *,
        until: datetime | timedelta | None = None,
        by: str | None = None,
    ) -> None:
        """Let nobody claim from a queue, until a time or :meth:`resume`.

        Tasks that run already go on; those that a pipeline has claimed and not started go
        back. Enqueueing goes on, and what comes due waits. ``until`` is a time, or a span
        from now. ``by`` says who paused it, for others to read.

        Raises:
            UnknownQueueError: the queue is neither declared here nor recorded in the store.
            ConfigurationError: ``until`` lies in the past.
        """
        if by is not None:
            check_name("by", by)
        store = await self._controlled(queue)
        ends = self._moment(until)
        await self._steer(queue, lambda: store.pause_queue(queue, until=ends, by=by))

    async def resume(self, queue: str) -> None:
        """Let a queue be claimed from again; one that is not paused is left alone.

        Raises:
            UnknownQueueError: the queue is neither declared here nor recorded in the store.
        """
        store = await self._controlled(queue)
        await self._steer(queue, lambda: store.resume_queue(queue))

    async def set_queue_policy(  # noqa: PLR0913  - each is optional
        self,
        queue: str,
        *,
        ttl: timedelta | None = None,
        max_attempts: int | None = None,
        timeout: timedelta | None = None,  # noqa: ASYNC109  - recorded, not waited for
        backoff: Backoff | None = None,
        weight: int | None = None,
        workers: int | None = None,
        lanes: int | None = None,
    ) -> None:
        """Change what is given of a queue's policy, whatever its declarations say.

        ``ttl`` and ``max_attempts`` hold for tasks that are enqueued from now on, ``timeout``
        and ``backoff`` for attempts that begin. ``workers`` is how many tasks of the queue
        each manager runs at once; where queues share a pool, no more than that has. ``lanes``
        is into how many lanes new tasks without a unique key go, 1 to 64.

        Raises:
            UnknownQueueError: the queue is neither declared here nor recorded in the store.
            ConfigurationError: a value that a ``QueuePolicy`` would refuse.
        """
        changes = QueueChanges(
            ttl=ttl,
            max_attempts=max_attempts,
            timeout=timeout,
            backoff=backoff,
            weight=weight,
            workers=workers,
            lanes=lanes,
        )
        store = await self._controlled(queue)
        await self._steer(queue, lambda: store.change_queue(queue, changes))

    async def reset_queue_policy(self, queue: str) -> None:
        """Let a queue's policy be as declared again.

        Raises:
            UnknownQueueError: the queue is neither declared here nor recorded in the store.
        """
        store = await self._controlled(queue)
        await self._steer(queue, lambda: store.change_queue(queue, None))

    async def quiet_node(self, node: str) -> None:
        """Let one manager claim nothing more; what it runs goes on.

        Raises:
            ConfigurationError: there is no such manager.
        """
        await self._order(node, NodeOrder.QUIET)

    async def drain_node(self, node: str) -> None:
        """Let one manager claim nothing more, finish what it runs, and stop.

        ``Manager.run()`` then returns, there.

        Raises:
            ConfigurationError: there is no such manager.
        """
        await self._order(node, NodeOrder.DRAIN)

    async def wake_node(self, node: str) -> None:
        """Let a manager that is quiet claim again.

        Raises:
            ConfigurationError: there is no such manager.
        """
        await self._order(node, None)

    async def _controlled(self, queue: str | None = None) -> Controlling:
        if queue is not None:
            check_name("queue", queue)
        await self._reached()
        if not isinstance(self._store, Controlling):
            msg = f"{type(self._store).__name__} cannot record what operators decide"
            raise ConfigurationError(msg)
        return self._store

    async def _steer(self, queue: str, write: Callable[[], Awaitable[bool]]) -> None:
        if not await write():
            declared = self._queues.get(queue)
            if declared is None:
                raise UnknownQueueError(queue, list({**self._queues, **await self._store.queues()}))
            await self._register(declared)
            await write()
        if queue in self._queues:
            await self._recorded.refresh()

    async def _order(self, node: str, order: NodeOrder | None) -> None:
        check_name("manager id", node)
        store = await self._controlled()
        if isinstance(self._store, Metering):
            there = [each.id for each in await self._store.nodes()]
            # Where managers do not say that they are there, nobody knows better.
            if there and node not in there:
                msg = f"there is no manager {node!r}; there are {', '.join(there)}"
                raise ConfigurationError(msg)
        await store.order_node(node, order)

    def _moment(self, until: datetime | timedelta | None) -> datetime | None:
        if until is None:
            return None
        now = self._store.clock.now()
        if isinstance(until, timedelta):
            check_duration("until", until, minimum=timedelta(milliseconds=1))
            return now + until
        check_moment("until", until)
        if until <= now:
            msg = f"until lies in the past: {until}; it is {now}"
            raise ConfigurationError(msg)
        return until
