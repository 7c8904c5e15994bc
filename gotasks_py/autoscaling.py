"""How many workers queues should have, by what waits in them: pure rules, no clock, no store.

:func:`wanted_workers` tells it for one queue, for autoscalers of any kind. :func:`balanced`
shares what there may be among queues, and :func:`next_size` moves a size there without
flapping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Final

from gotasks_py.checks import LONGEST, MAX_WORKERS, check_count, check_duration
from gotasks_py.errors import ConfigurationError

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingConfig:
    """Between which bounds to scale, and how eagerly.

    ``least`` and ``most``: how many there may be, at most 10 000. ``target_wait``: for how
    long a task that is due may wait; default 5 s. ``pause_up``: how long to wait after a
    change before there are more; default 5 s. ``pause_down``: before there are fewer;
    default 60 s.

    Raises:
        ConfigurationError: a bound below one or above 10 000, a time out of its bounds, or
            ``least`` above ``most``.
    """

    least: int = 1
    most: int
    target_wait: timedelta = timedelta(seconds=5)
    pause_up: timedelta = timedelta(seconds=5)
    pause_down: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        check_count("least", self.least, maximum=MAX_WORKERS)
        check_count("most", self.most, maximum=MAX_WORKERS)
        if self.least > self.most:
            msg = f"least must not be above most: {self.least} > {self.most}"
            raise ConfigurationError(msg)
        shortest = timedelta(milliseconds=1)
        check_duration("target_wait", self.target_wait, minimum=shortest, maximum=LONGEST)
        check_duration("pause_up", self.pause_up, minimum=timedelta(0), maximum=LONGEST)
        check_duration("pause_down", self.pause_down, minimum=timedelta(0), maximum=LONGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """What a queue has to do.

    ``due`` tasks wait, the first of them for ``oldest_due_age``; ``running`` tasks have a
    worker. ``run_time`` is how long a task takes on average; ``None``: not known. A paused
    queue wants no workers for what waits in it.
    """

    queue: str
    due: int
    running: int
    oldest_due_age: timedelta = timedelta(0)
    run_time: timedelta | None = None
    weight: int = 1
    is_paused: bool = False


def wanted_workers(load: QueueLoad, target_wait: timedelta) -> int:
    """Tell how many workers work off what is due within ``target_wait``.

    Never more than there are tasks, and none while there is nothing to do. While it is not
    known how long tasks take, the number that runs is taken to be all that can, and grows in
    proportion to how much too long the first in line has waited, at most to twice as many.
    """
    if load.is_paused or not load.due:
        return load.running
    tasks = load.due + load.running
    if load.run_time is not None:
        work = Fraction(tasks) * (load.run_time // _MICROSECOND)
        return min(tasks, max(1, math.ceil(work / (target_wait // _MICROSECOND))))
    if load.oldest_due_age <= target_wait:
        return min(tasks, max(1, load.running))
    excess = min(2.0, load.oldest_due_age / target_wait)
    return min(tasks, max(1, math.ceil(load.running * excess), load.running + 1))


def balanced(loads: Sequence[QueueLoad], config: ScalingConfig) -> Mapping[str, int]:
    """Tell how many workers each queue gets of at most ``config.most``.

    When they are enough each queue gets what it wants. Otherwise every queue that wants
    workers gets one, as far as they go and the heaviest first, and the rest go round by weight.
    """
    wanted = {load.queue: wanted_workers(load, config.target_wait) for load in loads}
    if sum(wanted.values()) <= config.most:
        return wanted
    weights = {load.queue: load.weight for load in loads}
    given = dict.fromkeys(wanted, 0)
    for _ in range(config.most):
        hungry = [name for name in wanted if given[name] < wanted[name]]
        # The one whose next worker costs the least of its share; by name where it is alike.
        chosen = min(hungry, key=lambda name: _turn(given[name], weights[name], name))
        given[chosen] += 1
    return given


def _turn(given: int, weight: int, name: str) -> tuple[bool, Fraction, str]:
    return bool(given), Fraction(given + 1, weight), name


def next_size(
    size: int, wanted: int, *, since_change: timedelta, config: ScalingConfig
) -> tuple[int, str]:
    """Tell the next size, and why; ``since_change`` is for how long there was this one.

    Growing may at most double it, so that one look at a burst is not believed to the end;
    shrinking waits longer, and goes down by a half at most.
    """
    goal = min(max(wanted, config.least), config.most)
    if not config.least <= size <= config.most:
        return min(max(size, config.least), config.most), "outside of its bounds"
    if goal > size:
        if since_change < config.pause_up:
            return size, f"{wanted} wanted, growing again in {config.pause_up - since_change}"
        return min(goal, size * 2), f"{wanted} wanted"
    if goal < size:
        if since_change < config.pause_down:
            return size, f"{wanted} wanted, shrinking in {config.pause_down - since_change}"
        return max(goal, size // 2), f"only {wanted} wanted"
    return size, f"{wanted} wanted"
