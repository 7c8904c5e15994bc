"""The estimate of the server's time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from gotasks_mongostore import _clock
from gotasks_mongostore._clock import ServerClock
from gotasks_py.errors import ConfigurationError

START = datetime(2026, 1, 1)  # noqa: DTZ001  - as the driver decodes it


class World:
    """A server, a way to it that takes its time, and the clocks of this machine."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.wall = 0.0
        self.server = START
        self.questions = 0
        self.back: Sequence[float] = ()

    def monotonic(self) -> float:
        return self.passed

    def time(self) -> float:
        return self.passed + self.wall

    async def hello(self) -> Mapping[str, object]:
        answered = self.server + timedelta(seconds=self.passed)
        self.passed += self.back[min(self.questions, len(self.back) - 1)]
        self.questions += 1
        return {"localTime": answered}

    def refresh(self, clock: ServerClock, *back: float) -> float:
        """Ask, with answers that take so long; tell how many seconds behind it is then."""
        self.questions, self.back = 0, back
        anyio.run(clock.refresh, self.hello)
        truth = self.server.replace(tzinfo=UTC) + timedelta(seconds=self.passed)
        return (truth - clock.now()).total_seconds()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(_clock, "time", world)
    return world


def test_it_is_not_known_before_the_server_was_asked() -> None:
    clock = ServerClock()

    assert clock.is_stale
    with pytest.raises(ConfigurationError, match="not known"):
        clock.now()


def test_it_is_never_ahead_however_long_the_answer_took(world: World) -> None:
    assert world.refresh(ServerClock(), 0.015) == pytest.approx(0.015)
    assert world.questions == 1


def test_a_slow_answer_is_asked_for_again_and_the_nearest_counts(world: World) -> None:
    assert world.refresh(ServerClock(), 0.3, 0.01) == pytest.approx(0.01)
    assert world.questions == 2
    assert world.refresh(ServerClock(), 0.3, 0.1, 0.2) == pytest.approx(0.1)
    assert world.questions == 3


def test_a_slow_answer_later_does_not_spoil_what_is_known(world: World) -> None:
    clock = ServerClock()
    world.refresh(clock, 0.01)
    world.passed += 100
    assert clock.is_stale
    assert world.refresh(clock, 0.4) == pytest.approx(0.01)
    assert not clock.is_stale


def test_a_step_of_the_wall_clock_makes_it_stale_and_forgotten(world: World) -> None:
    clock = ServerClock()
    world.refresh(clock, 0.01)
    world.wall += 600
    assert clock.is_stale
    assert world.refresh(clock, 0.1, 0.05, 0.2) == pytest.approx(0.05)
    assert not clock.is_stale


def test_what_no_round_trip_explains_is_not_kept(world: World) -> None:
    clock = ServerClock()
    world.refresh(clock, 0.01)
    world.server -= timedelta(seconds=5)
    assert world.refresh(clock, 0.015) == pytest.approx(0.015)
