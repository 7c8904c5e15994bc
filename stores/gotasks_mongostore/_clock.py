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
# An answer that took longer leaves too much open; on a far or busy server others take as long.
_SLOW_SECONDS: Final = 0.02
_MOST_QUESTIONS: Final = 3


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
        return self._has_stepped or time.monotonic() - self._monotonic > _MAX_AGE_SECONDS

    @property
    def _has_stepped(self) -> bool:
        elapsed = time.monotonic() - self._monotonic
        return abs(time.time() - self._wall - elapsed) > _MAX_STEP_SECONDS

    async def refresh(
        self, hello: Callable[[], Awaitable[Mapping[str, object]]]
    ) -> Mapping[str, object]:
        """Ask the server for its time, once more where the answer takes long.

        The time of the answer's way back is left out, so that an estimate is not ahead:
        a task stamped with it is due at once. Of several, the latest is nearest. What a round
        trip too early lands below a low-water mark is found by the claim without the bound.
        """
        answer, round_trip = await self._ask(hello)
        for _ in range(_MOST_QUESTIONS - 1):
            if round_trip > _SLOW_SECONDS:
                answer, round_trip = await self._ask(hello)
        return answer

    async def _ask(
        self, hello: Callable[[], Awaitable[Mapping[str, object]]]
    ) -> tuple[Mapping[str, object], float]:
        asked = time.monotonic()
        answer = await hello()
        round_trip = time.monotonic() - asked
        server = answer.get("localTime")
        if isinstance(server, datetime):
            # The driver decodes command replies without a time zone.
            self._learn(server.replace(tzinfo=UTC), timedelta(seconds=round_trip))
        return answer, round_trip

    def _learn(self, server: datetime, round_trip: timedelta) -> None:
        if self._server is not None and not self._has_stepped:
            elapsed = timedelta(seconds=time.monotonic() - self._monotonic)
            known = self._server + elapsed
            # Beyond the round trip it is not the answer that was slow, but a clock that is wrong.
            if server <= known <= server + round_trip:
                server = known
        self._server = server
        self._monotonic, self._wall = time.monotonic(), time.time()
