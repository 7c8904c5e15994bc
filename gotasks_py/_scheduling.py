"""In which order a pool asks its queues for work."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from gotasks_py._rotation import LaneRotation
from gotasks_py.policy import QueuePolicy

QueueOrder: TypeAlias = Literal["weighted", "strict"]

_MOST_TIMERS: Final = 1000
_FIRST_HESITATION: Final = 0.002
_MOST_HESITATION: Final = 0.1


@dataclass(slots=True, eq=False)
class Source:
    """One queue as a pool sees it.

    A source that had nothing is *dry* until a nudge or ``probe_at``, a monotonic time. The
    epoch tells a nudge that came while a claim was under way: that claim's empty answer
    says nothing about the work that the nudge was for.
    """

    queue: QueuePolicy
    types: tuple[str, ...]
    lanes: LaneRotation = field(default_factory=LaneRotation)
    credit: int = 0
    epoch: int = 0
    is_dry: bool = False
    is_polled: bool = False
    """Whether it is open for a look that is due, not because work has come."""
    is_probed: bool = False
    """Whether one worker is having that look; the others need not."""
    probe_at: float = -math.inf
    is_held: bool = False
    """Whether nothing is to be claimed, by somebody's wish."""
    limit: float = math.inf
    """How many of its tasks may be in this manager's hands at once."""
    share: float = math.inf
    """How many, so that the other queues of its pool get their share of the workers."""
    in_hand: int = 0
    """How many are, those that are being asked for included."""
    is_surveyed: bool = False
    """Whether there is a timer for what becomes due next, since it ran dry."""
    hesitation: float = 0.0
    """The most seconds to wait before a look at work that all managers were told of."""
    is_called: bool = False
    """Whether it is open because all managers were told of work."""
    lane_pause: float = math.inf
    """The most seconds for which a lane that had nothing is passed over for the others."""
    _call_at: float = math.inf
    _timers: list[float] = field(default_factory=list)

    def nudge(self) -> None:
        """Work may have come."""
        self.epoch += 1
        self.is_dry = self.is_polled = self.is_probed = self.is_surveyed = False
        self.lanes.forget()

    def poll(self, now: float = -math.inf) -> None:
        """Let one worker have a look."""
        self.nudge()
        self.is_polled = True
        self.is_called = self._call_at <= now

    def call(self, now: float) -> bool:
        """Work has come, and every manager was told; tell whether to look at once.

        Who looked in vain, because others were faster, waits a moment the next time, and
        looks once for all that comes meanwhile: an event must not cost a claim of everybody.
        """
        if not self.hesitation:
            self.nudge()
            self.is_called = True
            return True
        if self._call_at == math.inf:
            self._call_at = now + self.hesitation * random.random()  # noqa: S311  - no secret
            self.probe_at = min(self.probe_at, self._call_at)
        return False

    def answered(self, *, called: bool, found: bool) -> None:
        """Learn from the answer to a claim how soon to look the next time all are told."""
        if found:
            self.hesitation = 0.0
        elif called:
            self.hesitation = min(max(2 * self.hesitation, _FIRST_HESITATION), _MOST_HESITATION)

    def claim_begins(self) -> bool:
        """Keep the others away if this claim is the look that is due; tell if all are called."""
        self.is_probed, self.is_polled = self.is_polled, False
        called, self.is_called = self.is_called, False
        self._call_at = math.inf
        return called

    def claim_ended(self) -> None:
        """Let the others in again."""
        self.is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether a worker that is free should claim here."""
        return not self.is_dry and not self.is_probed and self.is_wanted

    @property
    def is_wanted(self) -> bool:
        """Whether it may be claimed from, if it has work."""
        return not self.is_held and self.in_hand < min(self.limit, self.share)

    @property
    def is_to_survey(self) -> bool:
        """Whether to ask when its next task becomes due."""
        return self.is_probeable and not self.is_surveyed

    @property
    def is_probeable(self) -> bool:
        """Whether somebody is to have a look at ``probe_at``."""
        return self.is_dry and not self.is_held

    def expect(self, at: float) -> None:
        """Work becomes due at this monotonic time."""
        heapq.heappush(self._timers, at)
        if len(self._timers) > _MOST_TIMERS:
            # The farthest is the one that polling can best stand in for.
            self._timers.remove(max(self._timers))
            heapq.heapify(self._timers)
        if self.is_dry:
            self.probe_at = min(self.probe_at, at)

    def found_nothing(
        self, lanes: tuple[int, ...], epoch: int, asked_at: float, now: float, poll: float
    ) -> None:
        """Note an empty answer of some lanes to a claim that began in ``epoch``."""
        if epoch != self.epoch:
            return
        self.lanes.found_nothing(lanes, now + min(poll, self.lane_pause))
        if lanes == self.lanes.all:
            self.ran_dry(epoch, now, poll, asked_at)

    def ran_dry(self, epoch: int, now: float, poll: float, asked_at: float | None = None) -> None:
        """Note an empty answer to a claim that began in ``epoch``, sent at ``asked_at``."""
        if epoch != self.epoch:
            return
        # It says nothing of what has come due since it was sent.
        until = now if asked_at is None else asked_at
        while self._timers and self._timers[0] <= until:
            heapq.heappop(self._timers)
        self.is_dry = True
        self.probe_at = min(now + poll, self._call_at, *self._timers[:1])


class Scheduler:
    """Chooses the next queue to claim from, among those that are not dry.

    Weighted: smooth weighted round robin, so that over any stretch each queue with work
    gets its share of claims and none starves. Strict: the first declared that has work.
    """

    def __init__(self, sources: Sequence[Source], order: QueueOrder) -> None:
        self.sources = tuple(sources)
        self._order = order

    def turns(self) -> Iterator[Source]:
        """Yield the sources to try, best first, until one has work."""
        tried: set[int] = set()
        while True:
            open_sources = [each for each in self.sources if each.is_open and id(each) not in tried]
            if not open_sources:
                return
            chosen = open_sources[0] if self._order == "strict" else _heaviest(open_sources)
            tried.add(id(chosen))
            yield chosen

    def share(self, limit: int) -> int:
        """Tell how much one claim may take, so that the turns of other queues come soon."""
        if self._order == "strict":
            return limit
        return math.ceil(limit / max(1, sum(each.is_open for each in self.sources)))


def _heaviest(sources: Sequence[Source]) -> Source:
    for each in sources:
        each.credit += each.queue.weight
    chosen = max(sources, key=lambda each: each.credit)
    chosen.credit -= sum(each.queue.weight for each in sources)
    return chosen
