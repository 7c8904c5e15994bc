"""Claims: what was asked for, what came of it, and finding out when the answer is lost."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from datetime import timedelta

from gotasks_py._allowance import Allowance
from gotasks_py._meter import Meter
from gotasks_py._running import Running
from gotasks_py._scheduling import Source
from gotasks_py.lifecycle import batch_token
from gotasks_py.policy import QueuePolicy
from gotasks_py.store import ClaimRequest, Store
from gotasks_py.task import LeaseRef, Task

logger = logging.getLogger("gotasks_py.pool")


@dataclass(frozen=True, slots=True)
class Claimed:
    """A task that was claimed; its lease ends at ``deadline``, on the local monotonic clock."""

    task: Task
    token: str
    deadline: float
    source: Source
    lane: int

    @property
    def queue(self) -> QueuePolicy:
        """What holds for its queue now."""
        return self.source.queue

    def running(self, lease: timedelta) -> Running:
        """Begin its book-keeping; its lease is renewed to ``lease``."""
        # As it was asked for: a document that a hand has spoilt may not say it any more.
        ref = LeaseRef(self.task.id, self.queue.name, self.lane, self.token)
        return Running(self.task, ref, lease, self.deadline)


@dataclass(frozen=True, slots=True)
class Sent:
    """A claim that was sent to the store."""

    request: ClaimRequest
    limit: int | None
    at: float
    source: Source

    async def answer(self, store: Store) -> list[Claimed]:
        """Send it.

        Raises:
            StoreError: it failed, or may have been carried out, as the error says.
        """
        if self.limit is not None:
            tasks = await store.claim_many(self.request, self.limit)
            return [self.claimed(task) for task in tasks]
        task = await store.claim(self.request)
        return [] if task is None else [self.claimed(task)]

    def claimed(self, task: Task) -> Claimed:
        """Note that it took this task."""
        # Named in the claim, or else a hand has spoilt the document.
        lane = task.lane if task.lane in self.request.lanes else self.request.lanes[0]
        deadline = self.at + self.request.lease.total_seconds()
        return Claimed(task, self._token_of(task), deadline, self.source, lane)

    def _token_of(self, task: Task) -> str:
        token = self.request.token
        if self.limit is None:
            return token
        # Of an id that a hand has made the server may say another text.
        if task.lease is not None and task.lease.token.startswith(token):
            return task.lease.token
        return batch_token(token, task.id)


class LostClaims:
    """Claims whose answers never came, and the tasks that they turned out to have taken."""

    def __init__(self, store: Store, meter: Meter, allowance: Allowance) -> None:
        self._store = store
        self._meter = meter
        self._allowance = allowance
        self._unanswered: list[Sent] = []
        self._found: deque[Claimed] = deque()

    def __bool__(self) -> bool:
        return bool(self._unanswered or self._found)

    def add(self, sent: Sent) -> None:
        """Note a claim that the store may have carried out."""
        self._unanswered.append(sent)

    async def recovered(self) -> Claimed | None:
        """Look for a task that one of them had taken.

        Raises:
            StoreError: the store does not say; ask again.
        """
        while self._unanswered and not self._found:
            sent = self._unanswered.pop()  # so that no other worker looks for it as well
            try:
                tasks = await self._store.find_claimed(sent.request)
            except BaseException:
                self._unanswered.append(sent)
                raise
            self._allowance.give_back((sent.limit or 1) - len(tasks))
            self._meter.claimed(tasks)
            # This does not prove that claims work again: reads may succeed where writes fail.
            for task in tasks:
                logger.info(
                    "the answer to a claim was lost, found its task %s",
                    task.id,
                    extra={"task_id": str(task.id)},
                )
                self._found.append(sent.claimed(task))
                sent.source.in_hand += 1
        return self._found.popleft() if self._found else None
