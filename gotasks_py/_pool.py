"""A pool of workers over one or several queues: who claims, and who waits for what.

A worker that finds nothing waits. A nudge wakes one of them, a claim that found work
wakes one more, and while nothing comes a single timer wakes one at each poll, so that an
idle manager asks the store no more often than its poll says, however many workers it has.
"""

from __future__ import annotations

import logging
import math
import random
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import anyio

from gotasks_py._allowance import Allowance
from gotasks_py._claims import Claimed, LostClaims, Sent
from gotasks_py._closing import Closing
from gotasks_py._headcount import Headcount
from gotasks_py._meter import Meter
from gotasks_py._scheduling import QueueOrder, Scheduler, Source
from gotasks_py._waiting_room import WaitingRoom
from gotasks_py.backoff import Exponential
from gotasks_py.errors import StoreError, StoreUnavailableError
from gotasks_py.feed import Claimable
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import ClaimRequest, Store

logger = logging.getLogger("gotasks_py.pool")

_OUTAGE_PAUSE: Final = Exponential(base=timedelta(milliseconds=250), cap=timedelta(seconds=2))
_POLL_JITTER: Final = 0.1
_SAFETY_POLL_SECONDS: Final = 30.0
"""How often an idle pool looks for work although it would be told of it."""
# A timer that fires a hair before the server finds the task due would find nothing.
_TIMER_SLACK_SECONDS: Final = 0.005


class Pool:
    """Claims for its workers."""

    def __init__(  # noqa: PLR0913  - what it works with, and how
        self,
        store: Store,
        sources: Sequence[Source],
        *,
        size: int,
        order: QueueOrder,
        lease: timedelta,
        poll: timedelta,
        meter: Meter,
        allowance: Allowance,
        closing: Closing,
    ) -> None:
        self._store = store
        self._allowance = allowance
        self._meter = meter
        self._scheduler = Scheduler(sources, order)
        self.room = WaitingRoom(store.clock, self.sources)
        allowance.returned.append(self.room.wake_one)
        self.headcount = Headcount(size)
        self._lease = lease
        self._poll_seconds = poll.total_seconds()
        for source in sources:
            source.lane_pause = self._poll_seconds
        self._closing = closing
        self._lost = LostClaims(store, meter, allowance)
        self._in_flight: set[Sent] = set()
        self._failures = 0
        self._paused_until = -math.inf
        self._is_streaming = False
        self._paced_at = store.clock.now()
        self.is_stopping = False
        self.last_claim_at = store.clock.now()
        self.claimed_tasks = 0
        self._failing_since: datetime | None = None

    @property
    def failing_since(self) -> datetime | None:
        """Since when claims fail, unless nothing is to be claimed."""
        is_held = all(source.is_held for source in self.sources)
        return None if is_held else self._failing_since

    def is_silent(self, patience: timedelta) -> bool:
        """Whether claims should have been answered and were not."""
        now = self._store.clock.monotonic()
        oldest = min((sent.at for sent in self._in_flight), default=now)
        if now - oldest > patience.total_seconds():
            return True
        # Workers that are all busy claim nothing, and owe nothing.
        if not self.room.is_idle or not any(source.is_wanted for source in self.sources):
            return False
        owing = self._store.clock.now() - max(self.last_claim_at, self._paced_at)
        return owing > max(patience, timedelta(seconds=2 * self._pause_seconds))

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self.headcount.size

    def resize(self, size: int) -> int:
        """Have so many workers; tell how many more are to be started."""
        fewer = self.size - size
        added = self.headcount.change(size)
        for source in self.sources:
            source.limit = self._limit(source.queue)
        for _ in range(fewer):
            self.room.wake_one()
        return added

    def limit_share(self, source: Source, share: float) -> None:
        """Let so many tasks of a queue be in hand at once, while others wait as well."""
        was_wanted = source.is_wanted
        source.share = share
        if source.is_wanted and not was_wanted:
            self.room.wake_one()

    @property
    def sources(self) -> Sequence[Source]:
        return self._scheduler.sources

    async def claim(self, owner: str, limit: int | None = None) -> Sequence[Claimed]:
        """Take the next tasks of the pool's queues; nothing: there are none, wait.

        Without a ``limit`` it is one, to be started at once; with one, tasks may wait to be
        started, and last attempts are only reserved.
        """
        try:
            if self._lost and (recovered := await self.recovered()):
                return (recovered,)
            for source in self._scheduler.turns():
                if not self._allowance.left:
                    break
                claimed = await self._claim_from(source, owner, limit)
                if claimed:
                    return claimed
                if self.is_stopping:
                    break
        except StoreError as error:
            self._failed(error)
        return ()

    async def wait(self) -> None:
        """Wait until there may be work."""
        may_claim = self._allowance.left and any(source.is_open for source in self.sources)
        if self.is_stopping or may_claim:
            return
        await self.room.wait()

    def nudge(self, queue: str, due_at: datetime | None = None) -> None:
        """Say that a queue has work, now or at a time to come."""
        for source in self.sources:
            if source.queue.name != queue:
                continue
            ahead = self._seconds_until(due_at)
            if due_at is not None and ahead > 0:
                self.expect(source, due_at)
            else:
                source.nudge()
                self.room.wake_one()

    def call(self, task: Claimable) -> None:
        """Say that a task, of which every manager was told, may be claimed from now or later."""
        ahead = self._seconds_until(task.due_at)
        for source in self.sources:
            if source.queue.name != task.queue or task.type not in source.types:
                continue
            if ahead > 0:
                self.expect(source, task.due_at)
            elif source.call(self._store.clock.monotonic()):
                self.room.wake_one()
            else:
                self.room.reschedule()

    def control(self, queue: QueuePolicy, *, is_held: bool) -> None:
        """Go on with another policy of a queue, and claim from it or not.

        It may ask for fewer workers than the pool has; for more the pool has to grow.
        """
        for source in self.sources:
            if source.queue.name != queue.name:
                continue
            source.queue, source.is_held = queue, is_held
            source.limit = self._limit(queue)
            self._paced_at = self._store.clock.now()
            if not is_held:
                source.nudge()
                self.room.wake_one()
        self.room.reschedule()

    def _limit(self, queue: QueuePolicy) -> float:
        wanted = self.size if queue.workers is None else queue.workers
        # Every worker is no limit: a pipeline has more in its hands than it runs.
        return wanted if wanted < self.size else math.inf

    def ended(self, claimed: Claimed) -> None:
        """Notice that a claimed task is no longer in this manager's hands."""
        source = claimed.source
        was_wanted = source.is_wanted
        source.in_hand -= 1
        if source.is_wanted and not was_wanted:
            self._paced_at = self._store.clock.now()
            self.room.wake_one()

    def expect(self, source: Source, due_at: datetime) -> None:
        """Look into a source at a time to come."""
        at = self._store.clock.monotonic() + max(0.0, self._seconds_until(due_at))
        source.expect(at + _TIMER_SLACK_SECONDS + source.hesitation * random.random())  # noqa: S311  - no secret
        self.room.reschedule()

    def look(self) -> None:
        """Let one worker look into each queue."""
        for source in self.sources:
            if source.is_dry:
                source.poll()
                self.room.wake_one()
            else:  # somebody is about to look; what comes later shows in a survey
                source.is_surveyed = False

    def set_streaming(self, *, value: bool) -> None:
        """Poll seldom from now on, or often again, as work is told of or not."""
        self._is_streaming = value
        self._paced_at = self._store.clock.now()
        self.room.has_news()
        if not value:
            soon = self._store.clock.monotonic() + self._jittered_poll()
            for source in self.sources:
                source.probe_at = min(source.probe_at, soon)
        self.room.reschedule()

    async def has_idled(self) -> None:
        """Wait until sources have run dry whose next due time is to be asked for."""
        while not self._is_streaming or not any(source.is_to_survey for source in self.sources):
            await self.room.news()

    def stop(self) -> None:
        """Claim nothing any more, and let waiting workers go home."""
        self.is_stopping = True
        self.room.wake_all()

    async def tick(self) -> None:
        """Wake one worker whenever a dry queue is due for another look."""
        while not self.is_stopping:
            await self.room.look_due()

    def _seconds_until(self, due_at: datetime | None) -> float:
        if due_at is None:
            return 0.0
        return (due_at - self._store.clock.now()).total_seconds()

    async def _claim_from(self, source: Source, owner: str, limit: int | None) -> Sequence[Claimed]:
        lanes = source.lanes.choose(self._store.clock.monotonic())
        claimed = await self._claim_in(lanes, source, owner, limit)
        if not claimed and lanes != source.lanes.all and not self.is_stopping:
            claimed = await self._claim_in(source.lanes.all, source, owner, limit)
        return claimed

    async def _claim_in(
        self, lanes: tuple[int, ...], source: Source, owner: str, limit: int | None
    ) -> Sequence[Claimed]:
        epoch = source.epoch
        request = ClaimRequest(
            queue=source.queue.name,
            types=source.types,
            token=uuid.uuid4().hex,
            owner=owner,
            lease=self._lease,
            lanes=lanes,
        )
        asked_for = self._allowance.take(1 if limit is None else self._share(source, limit))
        if not asked_for:
            return ()
        share = None if limit is None else asked_for
        sent = Sent(request, share, self._store.clock.monotonic(), source)
        self._in_flight.add(sent)
        unused = asked_for
        source.in_hand += asked_for
        called = source.claim_begins()
        try:
            with source.lanes.claiming(lanes), self._closing.in_time():
                taken = await sent.answer(self._store)
            unused -= len(taken)
        except (StoreUnavailableError, anyio.get_cancelled_exc_class()):
            # The store may have carried it out. Cancelled: asyncio closes its event loop.
            self._lost.add(sent)
            unused = 0
            raise
        finally:
            self._allowance.give_back(unused)
            self._in_flight.discard(sent)
            source.in_hand -= asked_for
            source.claim_ended()
        self._succeeded()
        source.answered(called=called, found=bool(taken))
        if not taken:
            now = self._store.clock.monotonic()
            source.found_nothing(lanes, epoch, sent.at, now, self._jittered_poll())
            self.room.has_news()
            return ()
        self._meter.claimed([each.task for each in taken])
        self.room.wake_one()
        self.claimed_tasks += len(taken)
        source.in_hand += len(taken)
        for claimed in taken:
            source.lanes.found(lanes, claimed.lane)
        return taken

    def _share(self, source: Source, limit: int) -> int:
        room = max(1, source.limit - source.in_hand)
        return int(min(self._scheduler.share(limit), room))

    async def recovered(self) -> Claimed | None:
        """Look whether a claim whose answer was lost had taken a task.

        Raises:
            StoreError: the store does not say; ask again.
        """
        with self._closing.in_time():
            claimed = await self._lost.recovered()
        if claimed is not None:
            self.claimed_tasks += 1
            self.room.wake_one()
        return claimed

    def _failed(self, error: StoreError) -> None:
        now = self._store.clock.monotonic()
        if now >= self._paused_until:  # not one of many claims that were under way together
            self._failures += 1
        pause = _OUTAGE_PAUSE(self._failures).total_seconds()
        self._paused_until = now + pause
        for source in self.sources:
            source.ran_dry(source.epoch, now, pause)
            source.probe_at = now + pause
        if self._failing_since is None:
            self._failing_since = self._store.clock.now()
            logger.error("cannot claim tasks, trying on: %s", error)

    def _succeeded(self) -> None:
        self.last_claim_at = self._store.clock.now()
        if self._failing_since is not None:
            logger.info("claiming again after %d failures", self._failures)
            self._failures = 0
            self._failing_since = None
            for source in self.sources:
                source.nudge()

    @property
    def _pause_seconds(self) -> float:
        if self._is_streaming:
            return max(self._poll_seconds, _SAFETY_POLL_SECONDS)
        return self._poll_seconds

    def _jittered_poll(self) -> float:
        # Only ever longer: a poll is a promise of how seldom an idle manager asks.
        return self._pause_seconds * (1 + _POLL_JITTER * random.random())  # noqa: S311  - no secret
