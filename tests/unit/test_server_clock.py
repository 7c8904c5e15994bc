"""The estimate of the server's time."""

from collections.abc import Mapping
from datetime import UTC, datetime

import anyio
import pytest

from gotasks_mongostore._clock import ServerClock
from gotasks_py.errors import ConfigurationError

SERVER_TIME = datetime(2026, 1, 1)  # noqa: DTZ001  - as the driver decodes it


def test_it_is_not_known_before_the_server_was_asked() -> None:
    clock = ServerClock()

    assert clock.is_stale
    with pytest.raises(ConfigurationError, match="not known"):
        clock.now()


def test_it_is_never_ahead_however_long_the_answer_took() -> None:
    async def slow_hello() -> Mapping[str, object]:
        await anyio.sleep(0.2)
        return {"localTime": SERVER_TIME}

    async def refreshed() -> datetime:
        clock = ServerClock()
        await clock.refresh(slow_hello)
        return clock.now()

    estimate = anyio.run(refreshed)

    assert 0 <= (estimate - SERVER_TIME.replace(tzinfo=UTC)).total_seconds() < 0.05
