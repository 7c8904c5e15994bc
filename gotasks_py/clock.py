"""What time it is, in the only clock that due times and leases are judged by: the store's."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time that a store lives in."""

    def now(self) -> datetime:
        """Tell the store's time: aware, UTC, whole milliseconds."""
        ...

    def monotonic(self) -> float:
        """Tell seconds from an arbitrary start that no clock step moves."""
        ...


def truncated(moment: datetime) -> datetime:
    """Cut to whole milliseconds, which is what a MongoDB date keeps."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        """Tell the system's UTC time in whole milliseconds."""
        return truncated(datetime.now(UTC))

    def monotonic(self) -> float:
        """Tell the system's monotonic time, from any thread."""
        return time.monotonic()
