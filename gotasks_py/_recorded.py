"""What the store has recorded of a manager's queues, and may change while it runs."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from gotasks_py.controls import Pause, QueueChanges
from gotasks_py.errors import StoreError
from gotasks_py.lanes import Lanes
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import Store

logger = logging.getLogger("gotasks_py.queues")

_REFRESH_SECONDS: Final = 1.0
_PRODUCER_SECONDS: Final = 5.0
_SELDOM_SECONDS: Final = 60.0
_JITTER: Final = 0.1


@dataclass(frozen=True, slots=True)
class QueueState:
    """What holds for one queue: its lanes, its policy, and whether nothing is to be claimed."""

    policy: QueuePolicy
    lanes: Lanes = field(default_factory=Lanes)
    is_paused: bool = False


class RecordedQueues:
    """Knows the state of each declared queue, and learns of changes.

    A running manager refreshes it every second, or when it is told of changes; a producer
    alone every few seconds, before it enqueues. ``changed`` is called with the name of a queue that
    has changed.
    """

    def __init__(
        self,
        store: Store,
        declared: Mapping[str, QueuePolicy],
        changed: Callable[[str], None],
    ) -> None:
        self._store = store
        self.declared = declared
        self.policies = dict(declared)
        """What holds for each declared queue now."""
        self._changed = changed
        self._known: dict[str, Mapping[str, object]] = {}
        self._states: dict[str, QueueState] = {}
        self._read_at = -math.inf
        self._is_told = False
        self._stale: anyio.Event | None = None

    def set_told(self, *, value: bool) -> None:
        """Refresh seldom from now on, or every second again."""
        self._is_told = value
        self.recheck()

    def recheck(self) -> None:
        """Refresh at once: a queue has changed, or may have."""
        if self._stale is not None:
            self._stale.set()

    def knows(self, queue: str) -> bool:
        """Whether the queue has been registered or read."""
        return queue in self._known

    def state(self, queue: str) -> QueueState:
        """Tell the state of a queue."""
        return self._states.get(queue) or QueueState(self.declared[queue])

    def lanes(self, queue: str) -> Lanes:
        """Tell the lanes of a queue."""
        state = self._states.get(queue)
        return _ONE_LANE if state is None else state.lanes

    def learn(self, queue: str, recorded: Mapping[str, object]) -> None:
        """Take in what a store has recorded of a queue."""
        if queue not in self._known:
            self._read_at = max(self._read_at, self._store.clock.monotonic())
        self._known[queue] = recorded
        self._judge(queue)

    async def refresh(self) -> None:
        """Read what is recorded; to be called when a queue may have changed.

        Raises:
            StoreError: the store does not say.
        """
        # Noted first: those who come meanwhile go on with what is known.
        self._read_at = self._store.clock.monotonic()
        for name, recorded in (await self._store.queues()).items():
            if name in self.declared:
                self.learn(name, recorded)

    async def refresh_if_old(self) -> None:
        """Read what is recorded unless that was done a few seconds ago."""
        if self._store.clock.monotonic() - self._read_at < _PRODUCER_SECONDS:
            return
        try:
            await self.refresh()
        except StoreError as error:
            logger.debug("cannot read the queues, going on with what is known: %s", error)

    async def run(self) -> None:
        """Refresh every second, or when told, until cancelled; and end pauses in time."""
        self._stale = anyio.Event()
        while True:
            pause = _SELDOM_SECONDS if self._is_told else _REFRESH_SECONDS
            pause *= 1 - _JITTER * random.random()  # noqa: S311  - no secret
            with anyio.move_on_after(min(pause, self._seconds_paused())):
                await self._stale.wait()
            # Before it is read, so that a change in the midst of that counts.
            self._stale = anyio.Event()
            for name in self._known:
                self._judge(name)
            try:
                await self.refresh()
            except StoreError as error:
                logger.debug("cannot read the queues, going on with what is known: %s", error)

    def _judge(self, queue: str) -> None:
        """Tell of a change, if what is known amounts to one."""
        recorded, declared = self._known[queue], self.declared[queue]
        pause = Pause.from_document(recorded)
        changes, lanes = QueueChanges.from_document(recorded), Lanes.from_document(recorded)
        state = QueueState(
            policy=changes.of(declared),
            lanes=lanes.changed(changes.lanes) if changes.lanes else lanes,
            is_paused=pause is not None and pause.holds(self._store.clock.now()),
        )
        before = self._states.get(queue)
        self._states[queue], self.policies[queue] = state, state.policy
        if before is not None and before != state:
            self._changed(queue)

    def _seconds_paused(self) -> float:
        """Tell when the first pause ends."""
        now = self._store.clock.now()
        pauses = [Pause.from_document(each) for each in self._known.values()]
        ends = [each.until for each in pauses if each and each.until and each.until > now]
        return (min(ends) - now).total_seconds() if ends else math.inf


_ONE_LANE: Final = Lanes()
