"""Keeps the leases of running tasks, and stops handlers whose lease is gone.

Where the store can be reached from a thread, one thread renews all leases in one write
every third of a lease, so that a handler which blocks the event loop does not lose its
task. Elsewhere (virtual time) the same beat runs on the event loop. Apart from the beats
the lease is watched on the local monotonic clock: when it passes without a renewal, the
handler is cancelled, whether or not the database answers.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import anyio
from anyio import to_thread

from gotasks_py._running import Running, RunningTasks, StopReason
from gotasks_py.errors import GotasksError
from gotasks_py.store import Renewal, Renewed, Renewer, Store

logger = logging.getLogger("gotasks_py.heartbeat")

_BEATS_PER_LEASE: Final = 3
_IDLE_SECONDS: Final = 3600.0

_Ping: TypeAlias = int
"""Sent to the event loop with a beat, to see whether it answers before the next."""


class Heartbeat:
    """Renews the leases of ``running`` while :meth:`run` runs."""

    def __init__(self, store: Store, running: RunningTasks, lease: timedelta) -> None:
        self._store = store
        self._running = running
        self._lease = lease
        self._changed = anyio.Event()
        self._wake = threading.Event()
        self._failing_since: datetime | None = None
        self.last_beat_at: datetime | None = None
        self._is_blocked = False

    @property
    def failing_since(self) -> datetime | None:
        """Since when beats could not be written for what runs."""
        running = list(self._running.by_token.values())
        return self._failing_since if any(each.is_renewable for each in running) else None

    @property
    def is_loop_blocked(self) -> bool:
        """Whether a handler that runs keeps the event loop from everything else."""
        return self._is_blocked and bool(self._running.by_token)

    def began(self) -> None:
        """Look again: work began after a pause, and what beats had failed for is over."""
        self._failing_since = None
        self.changed()

    def changed(self) -> None:
        """Look again: there is work, or a lease has another length."""
        self._is_blocked = False  # or this would not be called
        self._changed.set()
        self._changed = anyio.Event()
        self._wake.set()

    async def run(self) -> None:
        """Beat until cancelled."""
        renewer = self._store.open_renewer(_interval([self._lease]))
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch_deadlines)
            if renewer is None:
                await self._beat_on_loop()
            else:
                await self._beat_on_thread(renewer, group)

    async def _beat_on_loop(self) -> None:
        rhythm = _Rhythm(self._store, self._running, self._lease)
        while True:
            with anyio.move_on_after(rhythm.pause()) as elapsed:
                await self._changed.wait()
            if not elapsed.cancelled_caught:
                continue
            beat = rhythm.begin()
            if not beat.renewals:
                continue
            try:
                renewed = await self._store.renew(beat.renewals)
            except GotasksError as error:
                self._failed(error)
                rhythm.hasten()
            else:
                self._succeeded(beat, renewed, rhythm)
                self._stop(renewed)

    async def _beat_on_thread(self, renewer: Renewer, group: anyio.abc.TaskGroup) -> None:
        limiter = anyio.CapacityLimiter(2)
        # Made anew at every run: a thread of the run before may still be in a renewal.
        line = Line()
        try:
            group.start_soon(self._read, line, limiter)
            await to_thread.run_sync(
                self._beat_until_closed, renewer, line, limiter=limiter, abandon_on_cancel=True
            )
        finally:
            line.closed.set()
            self._wake.set()
            line.mailbox.put(None)

    def _beat_until_closed(self, renewer: Renewer, line: Line) -> None:
        rhythm = _Rhythm(self._store, self._running, self._lease)
        try:
            while not line.closed.is_set():
                if self._wake.wait(min(rhythm.pause(), _IDLE_SECONDS)):
                    self._wake.clear()
                    continue
                beat = rhythm.begin()
                if not beat.renewals:
                    continue
                self._check_loop(line, beat, patience=rhythm.interval() / 2)
                try:
                    renewed = renewer.renew(beat.renewals)
                except GotasksError as error:
                    self._failed(error)
                    rhythm.hasten()
                else:
                    self._succeeded(beat, renewed, rhythm)
                    line.mailbox.put(renewed)
        finally:
            renewer.close()

    async def _read(self, line: Line, limiter: anyio.CapacityLimiter) -> None:
        while True:
            message = await to_thread.run_sync(
                line.mailbox.get, limiter=limiter, abandon_on_cancel=True
            )
            match message:
                case None:
                    return
                case Renewed():
                    self._stop(message)
                case ping:
                    line.answered = ping

    def _check_loop(self, line: Line, beat: _Beat, patience: float) -> None:
        blocked = line.is_unanswered(beat.sent, patience)
        if blocked and not self._is_blocked:
            logger.warning(
                "the event loop has not answered since the last heartbeat; it is blocked by one "
                "of: %s; make that handler a plain function, it then runs in a thread",
                ", ".join(sorted({f"{each.task.queue}/{each.task.type}" for each in beat.running})),
            )
        self._is_blocked = blocked

    def _succeeded(self, beat: _Beat, renewed: Renewed, rhythm: _Rhythm) -> None:
        for each, renewal in zip(beat.running, beat.renewals, strict=True):
            if renewal.ref.token in renewed.lost:
                continue
            each.deadline = max(each.deadline, beat.sent + renewal.lease.total_seconds())
            if each.lease != renewal.lease:
                # The handler gave the lease another length meanwhile. Which of the two writes
                # came last is not known, so the lease is as short as this one made it.
                each.deadline = beat.sent + renewal.lease.total_seconds()
                rhythm.hasten(at_once=True)
        self.last_beat_at = self._store.clock.now()
        if self._failing_since is not None:
            logger.info("heartbeats are written again")
            self._failing_since = None

    def _failed(self, error: GotasksError) -> None:
        if self._failing_since is None:
            self._failing_since = self._store.clock.now()
            logger.warning("a heartbeat could not be written, trying on: %s", error)

    def _stop(self, renewed: Renewed) -> None:
        for token in renewed.lost:
            if running := self._running.by_token.get(token):
                running.stop(StopReason.LEASE_LOST)
        for token in renewed.cancelled:
            if running := self._running.by_token.get(token):
                running.stop(StopReason.CANCELLED)

    async def _watch_deadlines(self) -> None:
        clock = self._store.clock
        while True:
            watched = [
                each
                for each in self._running.by_token.values()
                # A handler may take its time to stop, or ignore that it should.
                if not each.is_over and each.stop_reason is not StopReason.LEASE_LOST
            ]
            # A claim that comes meanwhile has a deadline a whole lease ahead; looking up each
            # third of that is soon enough for it.
            is_idle = not self._running.by_token
            pause = math.inf if is_idle else _interval([self._lease]).total_seconds()
            for each in watched:
                pause = min(pause, each.deadline - clock.monotonic())
            with anyio.move_on_after(max(0.0, pause)) as elapsed:
                await self._changed.wait()
            if not elapsed.cancelled_caught:
                continue
            for each in watched:
                if each.deadline <= clock.monotonic() and not each.is_over:
                    logger.error(
                        "the lease of task %s passed without a renewal, stopping its handler",
                        each.task.id,
                        extra={"task_id": str(each.task.id)},
                    )
                    each.stop(StopReason.LEASE_LOST)


class Line:
    """What the event loop and the thread of one run say to each other."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.mailbox: queue.SimpleQueue[Renewed | _Ping | None] = queue.SimpleQueue()
        self.answered: _Ping = 0
        self._asked: _Ping = 0
        self._asked_at = 0.0

    def is_unanswered(self, now: float, patience: float) -> bool:
        """Whether the event loop was asked ``patience`` ago and is silent; else ask it again.

        A beat may follow at once on one that the store held up: only time that the loop
        itself has had counts.
        """
        if self.answered == self._asked:
            self._asked += 1
            self._asked_at = now
            self.mailbox.put(self._asked)
            return False
        return now - self._asked_at >= patience


@dataclass(frozen=True, slots=True)
class _Beat:
    """What is renewed, as it was sent, and when on the monotonic clock."""

    running: Sequence[Running]
    renewals: Sequence[Renewal]
    sent: float


class _Rhythm:
    """When the next beat is due: a third of the shortest lease after the last one was sent."""

    def __init__(self, store: Store, running: RunningTasks, lease: timedelta) -> None:
        self._clock = store.clock
        self._running = running
        self._lease = lease
        self._due = math.inf

    def pause(self) -> float:
        """Tell how many seconds to wait; endless while nothing runs."""
        if not self._running.by_token:
            self._due = math.inf
            return math.inf
        now = self._clock.monotonic()
        self._due = min(self._due, now + self.interval())
        return max(0.0, self._due - now)

    def begin(self) -> _Beat:
        """Tell what to renew now."""
        running = self._renewable()
        sent = self._clock.monotonic()
        self._due = sent + self.interval()
        return _Beat(running, [each.renewal() for each in running], sent)

    def hasten(self, *, at_once: bool = False) -> None:
        """Beat again soon, before the next beat would be due."""
        pause = 0.0 if at_once else self.interval() / _BEATS_PER_LEASE
        self._due = min(self._due, self._clock.monotonic() + pause)

    def interval(self) -> float:
        """Tell how many seconds lie between beats."""
        # The manager's own lease counts always: it is what the next claim will have.
        leases = [self._lease, *(each.lease for each in self._renewable())]
        return _interval(leases).total_seconds()

    def _renewable(self) -> list[Running]:
        return [each for each in list(self._running.by_token.values()) if each.is_renewable]


def _interval(leases: Sequence[timedelta]) -> timedelta:
    return min(leases) / _BEATS_PER_LEASE
