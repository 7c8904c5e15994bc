"""Both event loops in virtual time, and a store that lives in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from trio.testing import MockClock

from gotasks_py.testing import VirtualClock
from tests.engine import world
from tests.engine.virtual import VirtualTimeLoop
from tests.engine.world import FaultyStore

IN_BOTH_MODES = {
    f"tests.engine.test_{name}"
    for name in (
        "cancel",
        "hooks",
        "interleavings",
        "leases",
        "metrics",
        "middleware",
        "requeue",
        "results",
        "retries",
        "shutdown",
        "steering",
        "timeouts",
    )
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if (
        getattr(metafunc.module, "__name__", "") in IN_BOTH_MODES
        and "store" in metafunc.fixturenames
    ):
        only_single = metafunc.definition.get_closest_marker("single_mode")
        modes = ["single"] if only_single else ["single", "pipeline"]
        metafunc.parametrize("mode", modes, indirect=True)


@pytest.fixture(autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run what is promised in either mode in both."""
    world.modes["default"] = world.EAGER if getattr(request, "param", "") == "pipeline" else None
    yield
    world.modes["default"] = None


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    if request.param == "trio":
        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@pytest.fixture
def store(anyio_backend: object) -> FaultyStore:
    # Tests on real time name their backend as a plain string.
    return FaultyStore(clock=None if isinstance(anyio_backend, str) else VirtualClock())
