"""An estimate of the server's clock, for what an insert must stamp itself."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from gotasks_py.clock import truncated
from gotasks_py.errors import ConfigurationError

_MAX_AGE_SECONDS: Final = 60.0
_MAX_STEP_SECONDS: Final = 1.0


class ServerClock:
    """The server's time, carried forward by this machine's monotonic clock.

    A step of the local wall clock does not move it. What does not show on the monotonic
    clock (a suspended machine) shows as a difference between the two, and makes the
    estimate stale, as does age.
    """

    def __init__(self) -> None:
        self._server: datetime | None = None
        self._monotonic = 0.0
        self._wall = 0.0

    def now(self) -> datetime:
        if self._server is None:
            msg = "the server's time is not known before the store is opened: await store.open()"
            raise ConfigurationError(msg)
        elapsed = time.monotonic() - self._monotonic
        return truncated(self._server + timedelta(seconds=elapsed))

    def monotonic(self) -> float:
        return time.monotonic()

    @property
    def is_stale(self) -> bool:
        """Whether the estimate should be made anew."""
        if self._server is None:
            return True
        elapsed = time.monotonic() - self._monotonic
        stepped = abs(time.time() - self._wall - elapsed) > _MAX_STEP_SECONDS
        return stepped or elapsed > _MAX_AGE_SECONDS

    async def refresh(
        self, hello: Callable[[], Awaitable[Mapping[str, object]]]
    ) -> Mapping[str, object]:
        """Ask the server for its time.

        The time of the answer's way back is left out, so that the estimate is never ahead:
        a task stamped with it is due at once. What a round trip too early lands below a
        low-water mark is found by the claim without the bound.
        """
        answer = await hello()
        server = answer.get("localTime")
        if isinstance(server, datetime):
            # The driver decodes command replies without a time zone.
            self._server = server.replace(tzinfo=UTC)
            self._monotonic, self._wall = time.monotonic(), time.time()
        return answer
