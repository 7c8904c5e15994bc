"""Both event loops in virtual time, and a store that lives in it."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from gotasks_py.testing import VirtualClock
from tests.engine.virtual import VirtualTimeLoop
from tests.engine.world import FaultyStore


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    if request.param == "trio":
        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@pytest.fixture
def store(anyio_backend: object) -> FaultyStore:
    # Tests on real time name their backend as a plain string.
    return FaultyStore(clock=None if isinstance(anyio_backend, str) else VirtualClock())
