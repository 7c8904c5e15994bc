"""Looks at one run of a manager: do claims, heartbeats and loops do what they are there for?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gotasks_py._heartbeat import Heartbeat
from gotasks_py._pool import Pool
from gotasks_py._reporting import Reporter
from gotasks_py._running import Running, RunningTasks
from gotasks_py._supervisor import LoopState, Supervisor
from gotasks_py._wakeup import Hub
from gotasks_py.clock import Clock
from gotasks_py.health import Health, LoopHealth, PoolHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """Knows where to look. A pool may be silent for ``patience`` before that is a complaint."""

    clock: Clock
    patience: timedelta
    pools: Sequence[Pool]
    running: RunningTasks
    heartbeat: Heartbeat
    supervisor: Supervisor
    staff: Callable[[], Sequence[PoolHealth]]
    reporter: Reporter | None

    def health(self, *, hub: Hub | None, failure: BaseException | None, has_ended: bool) -> Health:
        """Tell how the run is doing."""
        loops = {**self.supervisor.loops, **({} if hub is None else hub.loops)}
        staff = self.staff()
        reasons = [
            *_ending_complaints(failure, has_ended=has_ended),
            *self._claim_complaints(),
            *self._handler_complaints(),
            *self._lease_complaints(),
            *self._report_complaints(),
            *_loop_complaints(loops),
        ]
        return Health(
            ok=not reasons,
            reasons=reasons,
            is_alive=failure is None and not has_ended and not self._lapsed(),
            is_running=not has_ended,
            running_tasks=len(self.running.by_token),
            workers=sum(pool.workers for pool in staff),
            most_workers=sum(pool.most_workers for pool in staff),
            pools=staff,
            claimed_tasks=sum(pool.claimed_tasks for pool in self.pools),
            last_claim_at=max(pool.last_claim_at for pool in self.pools),
            last_beat_at=self.heartbeat.last_beat_at,
            last_report_at=None if self.reporter is None else self.reporter.reported_at,
            is_stream_connected=hub is not None and hub.is_connected,
            loops={
                name: LoopHealth(restarts=loop.restarts, error=loop.error)
                for name, loop in loops.items()
            },
        )

    def _claim_complaints(self) -> Iterator[str]:
        for pool in self.pools:
            names = ", ".join(source.queue.name for source in pool.sources)
            if pool.failing_since is not None:
                yield f"claims from {names} fail since {pool.failing_since}"
            elif pool.is_silent(self.patience):
                yield f"no claim from {names} was answered since {pool.last_claim_at}"

    def _handler_complaints(self) -> Iterator[str]:
        deaf = [each for each in self.running.by_token.values() if each.is_deaf]
        if deaf:
            yield f"the handlers of {len(deaf)} tasks were told to stop and run on"

    def _lease_complaints(self) -> Iterator[str]:
        lapsed = self._lapsed()
        if lapsed:
            yield f"the leases of {len(lapsed)} running tasks are not renewed"
        if (since := self.heartbeat.failing_since) is not None:
            yield f"heartbeats fail since {since}"
        if self.heartbeat.is_loop_blocked:
            yield "a handler blocks the event loop"

    def _report_complaints(self) -> Iterator[str]:
        since = None if self.reporter is None else self.reporter.silent_since
        if since is not None:
            yield f"nothing was reported since {since}: to others this manager is gone"

    def _lapsed(self) -> Sequence[Running]:
        now = self.clock.monotonic()
        return [each for each in self.running.by_token.values() if each.deadline < now]


def _ending_complaints(failure: BaseException | None, *, has_ended: bool) -> Iterator[str]:
    if failure is not None:
        yield f"the manager failed: {failure!r}"
    if has_ended:
        yield "the manager has ended"


def _loop_complaints(loops: Mapping[str, LoopState]) -> Iterator[str]:
    for name, loop in loops.items():
        if loop.error is not None:
            yield f"loop {name} crashed and has not recovered: {loop.error}"
