"""What operators decide about a queue while managers run, as a store records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Pause:
    """A queue from which nothing is claimed, since ``at`` and for ever or until a time.

    ``by`` says who paused it, in their own words.
    """

    at: datetime
    until: datetime | None = None
    by: str | None = None

    def holds(self, now: datetime) -> bool:
        """Whether the queue is paused at this time of the store's clock."""
        return self.until is None or now < self.until

    @classmethod
    def from_document(cls, recorded: Mapping[str, object]) -> Pause | None:
        """Read the pause that a store has recorded of a queue; ``None``: there is none."""
        match recorded.get("pause"):
            case {"at": datetime() as at, **others}:
                until, by = others.get("until"), others.get("by")
                return cls(
                    at,
                    until if isinstance(until, datetime) else None,
                    by if isinstance(by, str) else None,
                )
            case _:
                return None
