"""One run of a manager, from start to stop: its pools, its loops, and the order they end in."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Final

import anyio

from gotasks_py._attempt import AttemptRunner
from gotasks_py._checkup import Checkup
from gotasks_py._config import EngineConfig
from gotasks_py._heartbeat import Heartbeat
from gotasks_py._janitor import Duty, Janitor, Loop
from gotasks_py._listening import ManagerListener, listen, listen_while_idle
from gotasks_py._meter import new_id
from gotasks_py._orders import Orders
from gotasks_py._pipeline import CLAIMS_AT_ONCE, Pipeline
from gotasks_py._pool import Pool, running_for
from gotasks_py._presence import Presence
from gotasks_py._reaping import Reaper
from gotasks_py._recorded import RecordedQueues
from gotasks_py._recording import BulkRecorder
from gotasks_py._reporting import Books
from gotasks_py._rotation import LaneRotation
from gotasks_py._running import RunningTasks, StopReason
from gotasks_py._scheduling import Source
from gotasks_py._settling import Settler
from gotasks_py._supervisor import Supervisor
from gotasks_py._surveying import Surveyor
from gotasks_py._wakeup import Hub, hub_of
from gotasks_py._worker import Worker
from gotasks_py.controls import NodeOrder
from gotasks_py.errors import StoreError
from gotasks_py.event_loops import spawn_detached
from gotasks_py.handlers import Registry
from gotasks_py.health import Health
from gotasks_py.hooks import HookCaller
from gotasks_py.policy import Defaults
from gotasks_py.store import Store
from gotasks_py.task import TaskId

logger = logging.getLogger("gotasks_py.manager")

_SILENT_POLLS: Final = 3
_LAST_WRITES: Final = timedelta(seconds=5)
"""How long a stop waits, after it cancelled the handlers, for their outcomes to be written."""


class Engine:
    """Runs until it is stopped; a manager makes a new one at every start."""

    def __init__(
        self,
        store: Store,
        config: EngineConfig,
        *,
        queues: RecordedQueues,
        registry: Registry,
        defaults: Defaults,
        hooks: HookCaller,
        books: Books,
    ) -> None:
        self.id = new_id(config.name)
        self._books = books
        self._presence: Presence | None = None
        self._store = store
        self._config = config
        self._queues = queues
        self._registry = registry
        self._hooks = hooks
        self._running = RunningTasks()
        self._stopping = anyio.Event()
        self._supervisor = Supervisor(store.clock.monotonic, is_ending=self._stopping.is_set)
        self._settler = Settler(store, books.meter)
        self._heartbeat = Heartbeat(store, self._running, config.lease)
        self._recorder = (
            None
            if config.mode is None
            else BulkRecorder(self._settler, self._running, store.clock, config.mode)
        )
        self._pools = list(self._made_pools())
        self._checkup = Checkup(
            clock=store.clock,
            patience=max(config.poll * _SILENT_POLLS, config.lease),
            pools=self._pools,
            running=self._running,
            heartbeat=self._heartbeat,
            supervisor=self._supervisor,
        )
        self._orders = Orders(store, self.id, self._running, self.obey)
        self._listener = ManagerListener(self._pools, self._running, self._queues, self._orders)
        self._hub: Hub | None = None
        self._runner = AttemptRunner(
            store=store,
            settler=self._settler,
            hooks=hooks,
            middleware=config.middleware,
            defaults=defaults,
            result_limit=config.result_limit,
            # An attempt that ran over its time leaves its thread behind; what limits the
            # number of handlers is the workers, so threads must not run out.
            threads=anyio.CapacityLimiter(float("inf")),
            lease_changed=self._heartbeat.changed,
            meter=books.meter,
            bulk=self._recorder,
        )
        self._pipelines = list(self._made_pipelines())
        self._numbers = count(1)
        self._workers: anyio.abc.TaskGroup | None = None
        self._is_quiet = False
        for queue in queues.declared:
            self.queue_changed(queue)
        self._scope = anyio.CancelScope()
        self._started = anyio.Event()
        self.over = anyio.Event()
        """Set when a stop is through, or the run has ended by itself."""
        self._ended = anyio.Event()
        self.failure: BaseException | None = None

    async def start(self) -> None:
        """Start working in the background."""
        spawn_detached(self._run, f"gotasks_py manager {self.id}")
        await self._started.wait()

    async def stop(self, grace: timedelta) -> None:
        """Claim no more, let handlers finish for ``grace``, then cancel and hand back.

        Leases are renewed meanwhile. A handler that ignores its cancellation is left
        behind; its task is handed back all the same, and its late outcome is refused.
        """
        if self.over.is_set():
            return
        self._stop_claiming()
        if not await self._ended_within(grace):
            self.interrupt()
            if not await self._ended_within(_LAST_WRITES):
                await self._leave_behind()
        self.over.set()

    def interrupt(self) -> None:
        """Cancel all handlers now; their tasks are handed back."""
        self._stop_claiming()
        for running in list(self._running.by_token.values()):
            running.stop(StopReason.SHUTDOWN)

    def nudge(self, queue: str, due_at: datetime | None, ids: Sequence[TaskId]) -> None:
        """Say that this process enqueued something."""
        self._listener.enqueued(queue, due_at, ids)

    def cancel(self, task_id: TaskId) -> None:
        """Stop a task at once if it runs here."""
        running = self._running.find(task_id)
        if running is not None:
            running.stop(StopReason.CANCELLED)

    def obey(self, order: NodeOrder | None) -> None:
        """Do what an operator wants of this manager."""
        if order is NodeOrder.DRAIN and not self._stopping.is_set():
            logger.info("manager %s was told to finish what it runs, and to stop", self.id)
            self._stop_claiming()
        is_quiet = order is NodeOrder.QUIET
        if is_quiet is not self._is_quiet:
            self._is_quiet = is_quiet
            logger.info(
                "manager %s was told to claim %s", self.id, "nothing" if is_quiet else "again"
            )
            for queue in self._queues.declared:
                self.queue_changed(queue)

    def queue_changed(self, queue: str) -> None:
        """Go on with what holds for a queue now."""
        state = self._queues.state(queue)
        workers = state.policy.workers or 0
        for pool in self._pools:
            if self._has_own_workers(queue) and pool.sources[0].queue.name == queue:
                self._grow(pool, workers)
            pool.control(state.policy, is_held=state.is_paused or self._is_quiet)
        for pipeline in self._pipelines:
            pipeline.hold()

    def health(self) -> Health:
        """Tell how the run is doing."""
        return self._checkup.health(
            hub=self._hub, failure=self.failure, has_ended=self._ended.is_set()
        )

    def _stop_claiming(self) -> None:
        self._stopping.set()
        for pool in self._pools:
            pool.stop()
        for pipeline in self._pipelines:
            pipeline.stop()

    async def _run(self) -> None:
        try:
            # The scope ends what is left when a stop has waited long enough.
            with self._scope:
                async with anyio.create_task_group() as background:
                    self._start_background(background)
                    async with anyio.create_task_group() as workers:
                        self._workers = workers
                        workers.start_soon(self._interrupt_when_cancelled)
                        for name, loop in self._working_loops():
                            workers.start_soon(self._supervisor.run, name, loop)
                        self._started.set()
                    if self._recorder is not None:
                        await self._recorder.drain()
                    background.cancel_scope.cancel()
        except Exception as error:
            self.failure = error
            logger.exception("manager %s failed", self.id)
        finally:
            await self._write_gathered()
            await self._return_unanswered()
            if self._presence is not None:
                await self._presence.leave()
            self._started.set()
            self._ended.set()
            self.over.set()

    def _start_background(self, group: anyio.abc.TaskGroup) -> None:
        for name, loop in self._background_loops().items():
            group.start_soon(self._supervisor.run, name, loop)

    def _background_loops(self) -> Mapping[str, Loop]:
        loops: dict[str, Loop] = {
            f"ticker.{number}": pool.tick for number, pool in enumerate(self._pools)
        }
        self._queues.set_told(value=False)  # whatever a run before this one was told
        loops["queues"] = self._queues.run
        loops["orders"] = self._orders.run
        self._hub = hub_of(self._store)
        if self._hub is not None:
            attend = listen if self._config.mode is None else listen_while_idle
            loops["listener"] = partial(attend, self._hub, self._listener, self._pools)
        for number, pool in enumerate(self._pools):
            surveyor = Surveyor(self._store, pool, self._config.poll)
            loops[f"surveyor.{number}"] = surveyor.run
        if self._config.heartbeat:
            loops["heartbeat"] = self._heartbeat.run
        if self._recorder is not None:
            loops["recorder"] = self._recorder.run
        for pipeline in self._pipelines:
            loops[f"{pipeline.owner}.clearer"] = pipeline.keep_clear
        return loops | Janitor(tuple(self._duties()), self._store.clock).loops()

    def _duties(self) -> Iterator[Duty]:
        reporter = self._books.reporter
        if reporter is not None:
            self._presence = Presence(
                id=self.id,
                reporter=reporter,
                running=self._running,
                capacity=sum(pool.size for pool in self._pools),
                types={name: self._registry.types(name) for name in self._queues.declared},
                clock=self._store.clock,
            )
            interval = reporter.config.interval
            yield Duty(
                name="metrics", interval=interval, do=self._presence.report, begins_at_once=True
            )
        config = self._config.janitor
        if config is not None:
            reaper = Reaper(self._store, self._hooks, self._books.meter, config.reap_batch)
            yield Duty(name="reap", interval=config.reap_interval, do=reaper.reap)

    async def _interrupt_when_cancelled(self) -> None:
        """Hand tasks back when the event loop itself is being closed down."""
        try:
            await self._stopping.wait()
        finally:
            if not self._stopping.is_set():
                self._settler.give_up()
                self.interrupt()

    async def _ended_within(self, span: timedelta) -> bool:
        with anyio.move_on_after(span.total_seconds()):
            await self._ended.wait()
        return self._ended.is_set()

    async def _leave_behind(self) -> None:
        """Hand back the tasks of handlers that ignore their cancellation, and give them up."""
        self._settler.give_up()
        stuck = [
            each
            for each in self._running.by_token.values()
            if not each.is_over and each.completion is None
        ]
        with anyio.move_on_after(_LAST_WRITES.total_seconds()):
            async with anyio.create_task_group() as group:
                for running in stuck:
                    logger.error(
                        "the handler of task %s ignores its cancellation, leaving it behind",
                        running.task.id,
                        extra={"task_id": str(running.task.id)},
                    )
                    group.start_soon(self._runner.abandon, running)
        self._scope.cancel()
        await self._ended_within(_LAST_WRITES / 10)

    async def _write_gathered(self) -> None:
        """Record the successes that nobody has come to: asyncio has closed its event loop."""
        if self._recorder is not None:
            with anyio.move_on_after(_LAST_WRITES.total_seconds(), shield=True):
                await self._recorder.write_rest()

    async def _return_unanswered(self) -> None:
        """Hand back what claims took whose answers were lost: no task waits out its lease."""
        with anyio.move_on_after(_LAST_WRITES.total_seconds(), shield=True):
            for pool in self._pools:
                try:
                    while claimed := await pool.recovered():
                        running = running_for(claimed, self._config.lease)
                        await self._settler.let_go(running, running.handed_back())
                except StoreError as error:
                    logger.warning("cannot look for claims without an answer: %s", error)

    def _made_pools(self) -> Iterator[Pool]:
        served = [
            Source(self._queues.state(name).policy, types, self._rotation(name))
            for name in self._queues.declared
            if self._config.serves(name) and (types := self._registry.types(name))
        ]
        shared = [each for each in served if not self._has_own_workers(each.queue.name)]
        if shared:
            yield self._pool(shared, self._config.workers)
        for source in served:
            if source not in shared:
                yield self._pool([source], source.queue.workers or 1)

    def _has_own_workers(self, queue: str) -> bool:
        return self._queues.declared[queue].workers is not None

    def _rotation(self, queue: str) -> LaneRotation:
        return LaneRotation(lambda: self._queues.lanes(queue).most)

    def _pool(self, sources: Sequence[Source], size: int) -> Pool:
        config = self._config
        return Pool(
            self._store,
            sources,
            size=size,
            order=config.order,
            lease=config.lease + (config.mode.queue_lease if config.mode else timedelta(0)),
            poll=config.poll,
            meter=self._books.meter,
        )

    def _working_loops(self) -> Iterator[tuple[str, Loop]]:
        for pipeline in self._pipelines:
            for number in range(1, CLAIMS_AT_ONCE + 1):
                yield f"{pipeline.owner}.fetcher.{number}", pipeline.fetch
        for pool in self._pools:
            yield from self._slots(pool, pool.size)

    def _slots(self, pool: Pool, number: int) -> Iterator[tuple[str, Loop]]:
        """Make more loops that each run one task after the other."""
        if self._config.mode is not None:
            (pipeline,) = (each for each in self._pipelines if each.pool is pool)
            for _ in range(number):
                yield f"{pipeline.owner}.{next(self._numbers)}", pipeline.work
            return
        for _ in range(number):
            worker = Worker(
                owner=f"{self.id}.{next(self._numbers)}",
                pool=pool,
                runner=self._runner,
                running=self._running,
                registry=self._registry,
                lease=self._config.lease,
                work_began=self._heartbeat.changed,
            )
            yield worker.owner, worker.run

    def _grow(self, pool: Pool, size: int) -> None:
        """Let a pool have so many workers, if it has fewer."""
        added = size - pool.size
        if added <= 0 or self._workers is None or self._stopping.is_set():
            return
        pool.size = size
        for pipeline in self._pipelines:
            if pipeline.pool is pool:
                pipeline.grow(added)
        for name, loop in self._slots(pool, added):
            self._workers.start_soon(self._supervisor.run, name, loop)

    def _made_pipelines(self) -> Iterator[Pipeline]:
        mode = self._config.mode
        if mode is None:
            return
        for number, pool in enumerate(self._pools, 1):
            yield Pipeline(
                owner=f"{self.id}.{number}",
                pool=pool,
                mode=mode,
                runner=self._runner,
                running=self._running,
                registry=self._registry,
                lease=self._config.lease,
                work_began=self._heartbeat.changed,
            )
