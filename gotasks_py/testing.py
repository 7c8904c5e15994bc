"""For the unit tests of programs that use gotasks_py.

With :class:`VirtualClock` a :class:`~gotasks_memstore.MemStore` lives in the time of the
event loop. Under trio's ``MockClock(autojump_threshold=0)`` a test of an hour's backoff
takes a fraction of a second, and less with a rare ``fallback_poll``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import anyio

from gotasks_py.clock import truncated

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A store's clock that follows the event loop's time, from ``start`` on.

    Works inside an event loop only. Time passes as ``anyio.sleep`` says it does.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._origin: float | None = None

    def now(self) -> datetime:
        """Tell the virtual time."""
        if self._origin is None:
            self._origin = anyio.current_time()
        return truncated(self._start + timedelta(seconds=anyio.current_time() - self._origin))

    def monotonic(self) -> float:
        """Tell the event loop's time."""
        return anyio.current_time()
