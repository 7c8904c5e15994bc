"""The pools of one run of a manager, and the workers in them: made, let grow, and sent home."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

import anyio

from gotasks_py._allowance import Allowance
from gotasks_py._attempt import AttemptRunner
from gotasks_py._closing import Closing
from gotasks_py._config import EngineConfig
from gotasks_py._janitor import Loop
from gotasks_py._pipeline import CLAIMS_AT_ONCE, Pipeline
from gotasks_py._pool import Pool
from gotasks_py._recorded import RecordedQueues
from gotasks_py._rotation import LaneRotation
from gotasks_py._running import RunningTasks
from gotasks_py._scheduling import Source
from gotasks_py._sizing import Sizer
from gotasks_py._supervisor import Supervisor
from gotasks_py._worker import Worker
from gotasks_py.autoscaling import ScalingConfig
from gotasks_py.handlers import Registry
from gotasks_py.health import PoolHealth
from gotasks_py.inspecting import Inspecting
from gotasks_py.store import Store


@dataclass(kw_only=True, eq=False)
class Crew:
    """All who work in a manager: one pool, and one more for each queue with its own workers."""

    id: str
    store: Store
    config: EngineConfig
    queues: RecordedQueues
    registry: Registry
    runner: AttemptRunner
    running: RunningTasks
    supervisor: Supervisor
    work_began: Callable[[], None]
    closing: Closing
    pools: Sequence[Pool] = field(init=False)
    _pipelines: dict[Pool, Pipeline] = field(default_factory=dict[Pool, Pipeline])
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _group: anyio.abc.TaskGroup | None = None
    _is_stopping: bool = False
    _allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        most = self.config.max_tasks
        self._allowance = Allowance() if most is None else Allowance(most)
        self.pools = tuple(self._made_pools())
        mode = self.config.mode
        if mode is not None:
            for number, pool in enumerate(self.pools, 1):
                self._pipelines[pool] = Pipeline(
                    owner=f"{self.id}.{number}",
                    pool=pool,
                    mode=mode,
                    runner=self.runner,
                    running=self.running,
                    registry=self.registry,
                    lease=self.config.lease,
                    work_began=self.work_began,
                )

    @property
    def capacity(self) -> int:
        """How many tasks can run at once."""
        return sum(pool.size for pool in self.pools)

    def workers(self) -> Mapping[str, int]:
        """Tell how many tasks of each queue can run at once."""
        return {
            source.queue.name: int(min(pool.size, source.limit))
            for pool in self.pools
            for source in pool.sources
        }

    def weights(self) -> Mapping[str, int]:
        """Tell the weight of each queue."""
        sources = (source for pool in self.pools for source in pool.sources)
        return {source.queue.name: source.queue.weight for source in sources}

    @property
    def staff(self) -> Sequence[PoolHealth]:
        """How many workers the pools have and may have, and for which queues."""
        return [self._staff(pool) for pool in self.pools]

    def _staff(self, pool: Pool) -> PoolHealth:
        scaling = self.config.workers
        most = pool.size
        if isinstance(scaling, ScalingConfig) and self._is_scaled(pool):
            most = scaling.most
        return PoolHealth(
            workers=pool.size,
            most_workers=most,
            queues={
                source.queue.name: min(most, source.queue.workers or most)
                for source in pool.sources
            },
        )

    @property
    def pipelines(self) -> Sequence[Pipeline]:
        """What runs the pools in pipeline mode; by default there are none."""
        return tuple(self._pipelines.values())

    def start(self, group: anyio.abc.TaskGroup) -> None:
        """Let everybody work, until the crew stops."""
        self._group = group
        for name, loop in self.loops():
            group.start_soon(self._employ, name, loop)

    def stop(self) -> None:
        """Claim no more, and let everybody go home who has nothing to do."""
        self._is_stopping = True
        for pool in self.pools:
            pool.stop()
        for pipeline in self.pipelines:
            pipeline.stop()

    def follow(self, queue: str, *, is_quiet: bool) -> None:
        """Go on with what holds for a queue now; who is quiet claims nothing."""
        state = self.queues.state(queue)
        for pool in self.pools:
            if self._has_own_workers(queue) and pool.sources[0].queue.name == queue:
                self.resize(pool, max(pool.size, state.policy.workers or 0))
            pool.control(state.policy, is_held=state.is_paused or is_quiet)
        for pipeline in self.pipelines:
            pipeline.hold()

    def loops(self) -> Iterator[tuple[str, Loop]]:
        """Tell what is to be kept running, by name."""
        for pipeline in self.pipelines:
            for number in range(1, CLAIMS_AT_ONCE + 1):
                yield f"{pipeline.owner}.fetcher.{number}", pipeline.fetch
        for pool in self.pools:
            yield from self._slots(pool, pool.size)

    def resize(self, pool: Pool, size: int) -> None:
        """Let a pool have so many workers; who is too many leaves when its task has ended."""
        fewer = pool.size - size
        if not fewer or self._group is None or self._is_stopping:
            return
        added = pool.resize(size)
        if pool in self._pipelines:
            self._pipelines[pool].grow(added)
            self._pipelines[pool].shrink(fewer)
        for name, loop in self._slots(pool, added):
            self._group.start_soon(self._employ, name, loop)

    def sizers(self) -> Iterator[Sizer]:
        """Tell who scales pools, where that is wanted: those without a size of their own."""
        scaling = self.config.workers
        if isinstance(scaling, ScalingConfig) and isinstance(self.store, Inspecting):
            for pool in filter(self._is_scaled, self.pools):
                yield Sizer(
                    store=self.store,
                    pool=pool,
                    config=scaling,
                    resize=self.resize,
                    is_sharing=self.config.mode is None,
                )

    def _is_scaled(self, pool: Pool) -> bool:
        return not self._has_own_workers(pool.sources[0].queue.name)

    async def _employ(self, name: str, loop: Loop) -> None:
        await self.supervisor.run(name, loop)
        if not self._is_stopping:  # it has left, and its name is never used again
            self.supervisor.loops.pop(name, None)

    def _slots(self, pool: Pool, number: int) -> Iterator[tuple[str, Loop]]:
        """Make more loops that each run one task after the other."""
        pipeline = self._pipelines.get(pool)
        for _ in range(number):
            if pipeline is not None:
                yield f"{pipeline.owner}.{next(self._numbers)}", pipeline.work
                continue
            worker = Worker(
                owner=f"{self.id}.{next(self._numbers)}",
                pool=pool,
                runner=self.runner,
                running=self.running,
                registry=self.registry,
                lease=self.config.lease,
                work_began=self.work_began,
            )
            yield worker.owner, worker.run

    def _made_pools(self) -> Iterator[Pool]:
        served = [
            Source(self.queues.state(name).policy, types, self._rotation(name))
            for name in self.queues.declared
            if self.config.serves(name) and (types := self.registry.types(name))
        ]
        shared = [each for each in served if not self._has_own_workers(each.queue.name)]
        if shared:
            yield self._pool(shared, self.config.least_workers)
        for source in served:
            if source not in shared:
                yield self._pool([source], source.queue.workers or 1)

    def _has_own_workers(self, queue: str) -> bool:
        return self.queues.declared[queue].workers is not None

    def _rotation(self, queue: str) -> LaneRotation:
        return LaneRotation(lambda: self.queues.lanes(queue).most)

    def _pool(self, sources: Sequence[Source], size: int) -> Pool:
        config = self.config
        return Pool(
            self.store,
            sources,
            size=size,
            order=config.order,
            lease=config.lease + (config.mode.queue_lease if config.mode else timedelta(0)),
            poll=config.poll,
            meter=self.runner.meter,
            allowance=self._allowance,
            closing=self.closing,
        )
