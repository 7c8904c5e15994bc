"""Durations in a few hundred numbers: quantiles within 1 %, and sums of sketches are exact.

Buckets grow by a constant factor, so that a bucket's middle is within 1 % of everything in
it, whatever the magnitude. Two sketches are added bucket by bucket, which loses nothing:
the quantiles of a day over a hundred managers are as right as those of one window.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil, log
from typing import Final

from gotasks_py._fields import number

RELATIVE_ERROR: Final = 0.01
"""By how much a quantile may differ from the true one, as a part of it."""

_GROWTH: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_PER_LOG: Final = 1 / log(_GROWTH)
_MIDDLE: Final = 2 / (1 + _GROWTH)
# Below a microsecond no clock tells durations apart; a century and above is one bucket.
_LEAST_SECONDS: Final = 1e-6
_MOST_SECONDS: Final = 3.2e9
_LOWEST: Final = ceil(log(_LEAST_SECONDS) * _PER_LOG)
_HIGHEST: Final = ceil(log(_MOST_SECONDS) * _PER_LOG)


@dataclass(slots=True)
class LatencySketch:
    """How long things took, as a distribution that can be added to others.

    Example:
        >>> sketch = LatencySketch.of([0.2, 0.3, 4.0])
        >>> round(sketch.quantile(0.5).total_seconds(), 2)
        0.3
    """

    buckets: dict[int, int] = field(default_factory=dict[int, int])
    """How many durations fell into each bucket."""
    total_seconds: float = 0.0
    """The sum of all durations."""

    @classmethod
    def of(cls, seconds: Iterable[float]) -> LatencySketch:
        """Make a sketch of durations in seconds."""
        sketch = cls()
        for each in seconds:
            sketch.add(each)
        return sketch

    def add(self, seconds: float) -> None:
        """Take in one duration; what is below a microsecond counts as one."""
        # Spelt out: this runs three times for each task.
        if _LEAST_SECONDS < seconds < _MOST_SECONDS:
            index = ceil(log(seconds) * _PER_LOG)
            self.total_seconds += seconds
        elif seconds >= _MOST_SECONDS:
            index = _HIGHEST
            self.total_seconds += seconds
        else:
            index = _LOWEST
        buckets = self.buckets
        try:
            buckets[index] += 1
        except KeyError:
            buckets[index] = 1

    def merge(self, other: LatencySketch) -> None:
        """Take in everything that another sketch holds."""
        mine = self.buckets
        if not mine:
            mine.update(other.buckets)
            self.total_seconds += other.total_seconds
            return
        for index, count in other.buckets.items():
            mine[index] = mine.get(index, 0) + count
        self.total_seconds += other.total_seconds

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(self.buckets.values())

    @property
    def mean(self) -> timedelta | None:
        """The average; ``None`` while there are no durations."""
        count = self.count
        return timedelta(seconds=self.total_seconds / count) if count else None

    @property
    def p50(self) -> timedelta | None:
        """The median; ``None`` while there are no durations."""
        return self.quantile(0.5)

    @property
    def p95(self) -> timedelta | None:
        """What 95 % do not exceed; ``None`` while there are no durations."""
        return self.quantile(0.95)

    @property
    def p99(self) -> timedelta | None:
        """What 99 % do not exceed; ``None`` while there are no durations."""
        return self.quantile(0.99)

    def quantile(self, part: float) -> timedelta | None:
        """Tell the smallest duration that this part of all does not exceed, within 1 %.

        ``None`` while there are no durations.

        Raises:
            ValueError: ``part`` is not between 0 and 1.
        """
        if not 0 <= part <= 1:
            msg = f"part must be between 0 and 1, not {part!r}"
            raise ValueError(msg)
        count = self.count
        if not count:
            return None
        rank = max(1, ceil(part * count))
        seen = 0
        for index in sorted(self.buckets):
            seen += self.buckets[index]
            if seen >= rank:
                return timedelta(seconds=_MIDDLE * _GROWTH**index)
        raise AssertionError  # the counts add up to what was counted

    def counts_below(self, bounds: Sequence[float]) -> list[int]:
        """Tell how many durations are below each of ``bounds``, in rising order, of seconds."""
        counts = [0] * len(bounds)
        for index, count in self.buckets.items():
            middle = _MIDDLE * _GROWTH**index
            for position, bound in enumerate(bounds):
                if middle <= bound:
                    counts[position] += count
        return counts

    def to_document(self) -> dict[str, object]:
        """Make what is stored: the buckets that are in use, and how many are in each.

        Packed, as little-endian numbers of four and of eight bytes: readers go through
        thousands of these, and lists of numbers take ten times as long to decode.
        """
        used = sorted(self.buckets)
        return {
            "buckets": struct.pack(f"<{len(used)}i", *used),
            "counts": struct.pack(f"<{len(used)}q", *(self.buckets[index] for index in used)),
            "total_seconds": self.total_seconds,
        }

    @classmethod
    def from_document(cls, document: object) -> LatencySketch:
        """Read what is stored; whatever cannot be read counts as nothing."""
        match document:
            case {"buckets": bytes(buckets), "counts": bytes(counts), "total_seconds": total}:
                pass
            case _:
                return cls()
        used = len(buckets) // 4
        if (len(buckets), len(counts)) != (4 * used, 8 * used) or not used:
            return cls()
        indexes = struct.unpack(f"<{used}i", buckets)
        numbers = struct.unpack(f"<{used}q", counts)
        if min(indexes) < _LOWEST or max(indexes) > _HIGHEST or min(numbers) <= 0:
            return cls()
        return cls(dict(zip(indexes, numbers, strict=True)), number(total))
