"""How a queue is divided into lanes, so that many claimers do not meet at its head.

A lane is a small number that a task is given once, when it is enqueued. The order of claims
holds within a lane. The number of lanes may change while producers and workers run; two
things then keep tasks unique and reachable:

- Tasks with a unique key hash over the number of lanes that the queue was first recorded
  with, for ever: the index that keeps keys unique holds within a lane.
- Claims cover the most lanes that the queue has ever had.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_LANES: Final = 64
"""A claim over all lanes is one index seek or more for each of them and each type."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of one queue.

    ``current`` is what tasks without a key are spread over, ``keyed`` those with one, and
    ``most`` is how many there may be tasks in.
    """

    current: int = 1
    keyed: int = 1
    most: int = 1

    @classmethod
    def first(cls, count: int) -> Lanes:
        """Begin a queue with so many lanes."""
        return cls(count, count, count)

    @classmethod
    def from_document(cls, recorded: Mapping[str, object]) -> Lanes:
        """Read what a store has recorded; what makes no sense reads as one lane."""
        current, keyed, most = (
            _count(recorded.get(name)) for name in ("lanes", "keyed_lanes", "most_lanes")
        )
        return cls(current, keyed, max(current, keyed, most))

    def changed(self, count: int) -> Lanes:
        """Go on with another number of lanes."""
        return Lanes(count, self.keyed, max(self.most, count))

    def to_document(self) -> dict[str, object]:
        """Describe the lanes as a store records them."""
        return {"lanes": self.current, "keyed_lanes": self.keyed, "most_lanes": self.most}

    def lane_for(self, unique_key: str | None) -> int:
        """Choose the lane of a new task."""
        if unique_key is None:
            return random.randrange(self.current) if self.current > 1 else 0  # noqa: S311  - no secret
        return lane_of_key(unique_key, self.keyed) if self.keyed > 1 else 0


def lane_of_key(unique_key: str, count: int) -> int:
    """Choose one of ``count`` lanes by a key; the same in every process and version."""
    digest = hashlib.blake2b(unique_key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 1
    return min(max(value, 1), MAX_LANES)
