"""One run of a manager, from start to stop: its pools, its loops, and the order they end in."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import anyio

from gotasks_py._attempt import AttemptRunner
from gotasks_py._checkup import Checkup
from gotasks_py._closing import Closing
from gotasks_py._config import EngineConfig
from gotasks_py._crew import Crew
from gotasks_py._heartbeat import Heartbeat
from gotasks_py._janitor import Duty, Janitor, Loop
from gotasks_py._listening import ManagerListener, listen, listen_while_idle
from gotasks_py._meter import new_id
from gotasks_py._orders import Orders
from gotasks_py._presence import INSTALLED_VERSION, Presence
from gotasks_py._reaping import Reaper
from gotasks_py._recorded import RecordedQueues
from gotasks_py._recording import BulkRecorder
from gotasks_py._reporting import Books
from gotasks_py._running import RunningTasks, StopReason
from gotasks_py._settling import Settler
from gotasks_py._supervisor import Supervisor
from gotasks_py._surveying import Surveyor
from gotasks_py._sweeping import Sweeper
from gotasks_py._wakeup import Hub, hub_of
from gotasks_py.controls import NodeOrder
from gotasks_py.errors import StoreError
from gotasks_py.event_loops import spawn_detached
from gotasks_py.handlers import Registry
from gotasks_py.health import Health
from gotasks_py.hooks import HookCaller
from gotasks_py.policy import Defaults
from gotasks_py.store import Store
from gotasks_py.sweeping import Sweeping
from gotasks_py.task import TaskId

logger = logging.getLogger("gotasks_py.manager")

_SILENT_POLLS: Final = 3
_LAST_WRITES: Final = timedelta(seconds=5)
"""How long a stop waits, after it cancelled the handlers, for their outcomes to be written."""
_LAST_TRY: Final = timedelta(seconds=3)
"""How long, after that, each thing may take that the store is still asked for."""
_SILENCE: Final = timedelta(seconds=20)
"""How much longer a stop waits at most: for five or six of these, and two notes of two seconds."""


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
        self._closing = Closing(_LAST_TRY)
        self._settler = Settler(store, books.meter, self._closing)
        self._heartbeat = Heartbeat(store, self._running, config.lease)
        self._recorder = (
            None
            if config.mode is None
            else BulkRecorder(self._settler, self._running, store.clock, config.mode)
        )
        self._runner = self._made_runner(defaults)
        self._crew = self._made_crew()
        self._checkup = self._made_checkup()
        self._orders = Orders(store, self.id, self._running, self.obey)
        self._listener = ManagerListener(
            self._crew.pools, self._running, self._queues, self._orders
        )
        self._hub: Hub | None = None
        self._is_quiet = False
        for queue in queues.declared:
            self.queue_changed(queue)
        self._scope = anyio.CancelScope()
        self._graces: set[anyio.CancelScope] = set()
        self._said_the_last: anyio.Event | None = None
        self._started = anyio.Event()
        self.over = anyio.Event()
        """Set when a stop is through, or the run has ended by itself."""
        self._ended = anyio.Event()
        self.failure: BaseException | None = None

    def _made_runner(self, defaults: Defaults) -> AttemptRunner:
        # An attempt that ran over its time leaves its thread behind; what limits the
        # number of handlers is the workers, so threads must not run out.
        threads = anyio.CapacityLimiter(float("inf"))
        return AttemptRunner(
            store=self._store,
            settler=self._settler,
            hooks=self._hooks,
            middleware=self._config.middleware,
            defaults=defaults,
            result_limit=self._config.result_limit,
            threads=threads,
            lease_changed=self._heartbeat.changed,
            meter=self._books.meter,
            bulk=self._recorder,
        )

    def _made_crew(self) -> Crew:
        return Crew(
            id=self.id,
            store=self._store,
            config=self._config,
            queues=self._queues,
            registry=self._registry,
            runner=self._runner,
            running=self._running,
            supervisor=self._supervisor,
            work_began=self._heartbeat.began,
            closing=self._closing,
        )

    def _made_checkup(self) -> Checkup:
        return Checkup(
            clock=self._store.clock,
            patience=max(self._config.poll * _SILENT_POLLS, self._config.lease),
            pools=self._crew.pools,
            running=self._running,
            heartbeat=self._heartbeat,
            supervisor=self._supervisor,
            staff=lambda: self._crew.staff,
            reporter=self._books.reporter,
        )

    async def start(self) -> None:
        """Start working in the background."""
        spawn_detached(self._run, f"gotasks_py manager {self.id}")
        await self._started.wait()

    async def stop(self, grace: timedelta) -> None:
        """Claim no more, let handlers finish for ``grace``, then cancel and hand back.

        Leases are renewed meanwhile. A handler that ignores its cancellation is left
        behind; its task is handed back all the same, and its late outcome is refused. Nothing
        else claims or writes any more when this returns: the store may be closed.
        """
        if self.over.is_set():
            return
        self._stop_claiming()
        if not await self._ended_within(grace, is_grace=True):
            self.interrupt()
            if not await self._ended_within(_LAST_WRITES):
                self._begin_to_leave()
                with anyio.move_on_after(_SILENCE.total_seconds()):
                    await self.over.wait()
        self.over.set()

    def interrupt(self) -> None:
        """Cancel all handlers now; their tasks are handed back, and no grace goes on."""
        self._stop_claiming()
        for grace in self._graces:
            grace.cancel()
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
        self._crew.follow(queue, is_quiet=self._is_quiet)

    def health(self) -> Health:
        """Tell how the run is doing."""
        return self._checkup.health(
            hub=self._hub, failure=self.failure, has_ended=self._ended.is_set()
        )

    def _stop_claiming(self) -> None:
        self._stopping.set()
        self._crew.stop()

    async def _run(self) -> None:
        try:
            # The scope ends what is left when a stop has waited long enough.
            with self._scope:
                async with anyio.create_task_group() as background:
                    self._start_background(background)
                    background.start_soon(self._interrupt_when_cancelled)
                    async with anyio.create_task_group() as workers:
                        self._crew.start(workers)
                        self._started.set()
                    if self._recorder is not None:
                        await self._recorder.drain()
                    background.cancel_scope.cancel()
        except Exception as error:
            self.failure = error
            logger.exception("manager %s failed", self.id)
        finally:
            await self._say_the_last()
            self._started.set()
            self._ended.set()
            self.over.set()

    def _start_background(self, group: anyio.abc.TaskGroup) -> None:
        for name, loop in self._background_loops().items():
            group.start_soon(self._supervisor.run, name, loop)

    def _background_loops(self) -> Mapping[str, Loop]:
        loops: dict[str, Loop] = {
            f"ticker.{number}": pool.tick for number, pool in enumerate(self._crew.pools)
        }
        self._queues.set_told(value=False)  # whatever a run before this one was told
        loops["queues"] = self._queues.run
        loops["orders"] = self._orders.run
        self._hub = hub_of(self._store)
        if self._hub is not None:
            attend = listen if self._config.mode is None else listen_while_idle
            loops["listener"] = partial(attend, self._hub, self._listener, self._crew.pools)
        for number, pool in enumerate(self._crew.pools):
            surveyor = Surveyor(self._store, pool, self._config.poll)
            loops[f"surveyor.{number}"] = surveyor.run
        for number, sizer in enumerate(self._crew.sizers()):
            loops[f"sizer.{number}"] = sizer.run
        if self._config.heartbeat:
            loops["heartbeat"] = self._heartbeat.run
        if self._recorder is not None:
            loops["recorder"] = self._recorder.run
        for pipeline in self._crew.pipelines:
            loops[f"{pipeline.owner}.clearer"] = pipeline.keep_clear
        return loops | Janitor(tuple(self._duties()), self._store.clock).loops()

    def _duties(self) -> Iterator[Duty]:
        reporter = self._books.reporter
        if reporter is not None:
            self._presence = Presence(
                id=self.id,
                reporter=reporter,
                running=self._running,
                capacity=lambda: self._crew.capacity,
                workers=self._crew.workers,
                weights=self._crew.weights,
                types={
                    name: self._registry.types(name)
                    for name in self._queues.declared
                    if self._config.serves(name)
                },
                clock=self._store.clock,
                version=self._config.version or INSTALLED_VERSION,
            )
            interval = reporter.config.interval
            yield Duty(
                name="metrics", interval=interval, do=self._presence.report, begins_at_once=True
            )
        config = self._config.janitor
        if config is not None:
            reaper = Reaper(
                self._store, self._hooks, self._books.meter, config.reap_batch, self._closing
            )
            yield Duty(name="reap", interval=config.reap_interval, do=reaper.reap)
        if config is not None and isinstance(self._store, Sweeping):
            sweeper = Sweeper(
                self._store, self._books.meter, config.reap_batch, self.nudge, self._closing
            )
            yield Duty(name="rescue", interval=config.rescue_interval, do=sweeper.rescue)
            yield Duty(name="sweep", interval=config.sweep_interval, do=sweeper.sweep)

    async def _interrupt_when_cancelled(self) -> None:
        """Hand tasks back when the event loop itself is being closed down, in a grace as well."""
        try:
            await anyio.sleep_forever()
        finally:
            self._closing.begin()
            self.interrupt()

    async def _ended_within(self, span: timedelta, *, is_grace: bool = False) -> bool:
        with anyio.move_on_after(span.total_seconds()) as scope:
            if is_grace:
                self._graces.add(scope)
            try:
                await self.over.wait()
            finally:
                self._graces.discard(scope)
        return self.over.is_set()

    def _begin_to_leave(self) -> None:
        """End what is under way, whether or not anybody waits for it."""
        if self._scope.cancel_called:
            return
        self._closing.begin()
        self._scope.cancel()
        spawn_detached(self._leave_behind, f"gotasks_py end of {self.id}")

    async def _leave_behind(self) -> None:
        """Do what the run would do at its end, which handlers and hooks may keep it from."""
        try:
            async with anyio.create_task_group() as group:
                for running in list(self._running.by_token.values()):
                    if running.is_over or running.completion is not None:
                        continue
                    logger.error(
                        "the handler of task %s ignores its cancellation, leaving it behind",
                        running.task.id,
                        extra={"task_id": str(running.task.id)},
                    )
                    group.start_soon(self._runner.abandon, running)
            await self._closing.quiet()
            await self._say_the_last()
        except Exception:
            logger.exception("manager %s could not leave in order", self.id)
        finally:
            self.over.set()

    async def _say_the_last(self) -> None:
        """Give back, record and report what is left: once, and whoever comes later waits."""
        with anyio.CancelScope(shield=True):
            if self._said_the_last is not None:
                await self._said_the_last.wait()
                return
            said = self._said_the_last = anyio.Event()
            self._closing.begin()
            try:
                with anyio.move_on_after(_LAST_WRITES.total_seconds()):
                    await self._return_unanswered()
                if self._recorder is not None:
                    await self._recorder.write_rest()
                await self._orders.forget()
                if self._presence is not None:
                    await self._presence.leave()
            finally:
                said.set()

    async def _return_unanswered(self) -> None:
        """Hand back what claims took whose answers were lost: no task waits out its lease."""
        for pool in self._crew.pools:
            try:
                while claimed := await pool.recovered():
                    running = claimed.running(self._config.lease)
                    await self._settler.let_go(running, running.handed_back())
            except StoreError as error:
                logger.warning("cannot look for claims without an answer: %s", error)
