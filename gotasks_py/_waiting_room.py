"""Where the workers of a pool wait that found nothing, with one timer for all of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import anyio

from gotasks_py._scheduling import Source
from gotasks_py.clock import Clock


class WaitingRoom:
    """Wakes one worker at a time: for a nudge, or when a queue is due for another look."""

    def __init__(self, clock: Clock, sources: Sequence[Source]) -> None:
        self._clock = clock
        self._sources = sources
        self._waiting: deque[anyio.Event] = deque()
        self._rescheduled = anyio.Event()
        self._idled = anyio.Event()
        self.waits = 0
        """How often a worker has come here."""

    @property
    def is_idle(self) -> bool:
        """Whether a worker has nothing to do."""
        return bool(self._waiting)

    async def wait(self) -> None:
        """Wait to be woken."""
        event = anyio.Event()
        self._waiting.append(event)
        self.waits += 1
        self.has_news()
        self.reschedule()
        try:
            await event.wait()
        finally:
            if not event.is_set():
                self._waiting.remove(event)

    def wake_one(self) -> None:
        """Let one worker look for work."""
        if self._waiting:
            self._waiting.popleft().set()

    def wake_all(self) -> None:
        """Let everybody go."""
        while self._waiting:
            self.wake_one()
        self.reschedule()

    async def idle(self) -> None:
        """Wait until a worker has nothing to do."""
        while not self._waiting:
            await self.news()

    def has_news(self) -> None:
        """Say that a worker has come, or a queue has run dry, or what is done about it changed."""
        self._idled.set()
        self._idled = anyio.Event()

    async def news(self) -> None:
        """Wait for the next of these."""
        await self._idled.wait()

    def reschedule(self) -> None:
        """Say that the time of the next look may be another one."""
        self._rescheduled.set()
        self._rescheduled = anyio.Event()

    async def look_due(self) -> None:
        """Wait until a queue is due for another look, or until the next time changes."""
        rescheduled = self._rescheduled
        pause = self._next_look() - self._clock.monotonic()
        with anyio.move_on_after(max(0.0, pause)):
            await rescheduled.wait()
            return
        self._look()

    def _next_look(self) -> float:
        if not self._waiting:
            return math.inf
        return min((each.probe_at for each in self._sources if each.is_probeable), default=math.inf)

    def _look(self) -> None:
        now = self._clock.monotonic()
        due = [each for each in self._sources if each.is_probeable and each.probe_at <= now]
        for source in due:
            source.poll(now)
        if due:
            self.wake_one()
