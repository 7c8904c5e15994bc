"""How long to wait before the next attempt."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from gotasks_py.errors import ConfigurationError

Backoff: TypeAlias = Callable[[int, BaseException | None], timedelta]
"""Maps the number of the attempt that failed (from 1) and its error to a delay."""

MAX_DELAY: Final = timedelta(days=365)
"""The longest delay that any backoff yields, whatever it computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """What the built-in backoffs share.

    ``jitter`` is the share of the delay, 0 to 1, of which a random part is taken off,
    default 0.1: it spreads retries, and never lengthens a delay.
    """

    jitter: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 1:
            msg = f"jitter must be between 0 and 1, not {self.jitter!r}"
            raise ConfigurationError(msg)

    def __call__(self, attempt: int, error: BaseException | None = None) -> timedelta:
        del error
        seconds = min(self._seconds(max(1, attempt)), MAX_DELAY.total_seconds())
        # Spreading retries needs no secrecy.
        return timedelta(seconds=seconds * (1 - self.jitter * random.random()))  # noqa: S311

    def _seconds(self, attempt: int) -> float:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fixed(_Spread):
    """The same delay after every attempt."""

    delay: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        _Spread.__post_init__(self)
        _check_delay("delay", self.delay)

    def _seconds(self, attempt: int) -> float:
        del attempt
        return self.delay.total_seconds()


@dataclass(frozen=True, slots=True)
class _Growing(_Spread):
    """A delay that grows from ``base`` (default 10 s) to ``cap`` (default one hour)."""

    base: timedelta = timedelta(seconds=10)
    cap: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        _Spread.__post_init__(self)
        _check_delay("base", self.base)
        _check_delay("cap", self.cap)

    def _seconds(self, attempt: int) -> float:
        base, cap = self.base.total_seconds(), self.cap.total_seconds()
        if base <= 0 or base >= cap:
            return min(base, cap)
        return min(base * self._multiple(attempt, cap / base), cap)

    def _multiple(self, attempt: int, most: float) -> float:
        """Tell how many times ``base`` to wait; beyond ``most`` any larger number will do."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Linear(_Growing):
    """``base`` times the attempt: 10 s, 20 s, 30 s, … up to ``cap``."""

    def _multiple(self, attempt: int, most: float) -> float:
        return min(most, attempt)


@dataclass(frozen=True, slots=True)
class Exponential(_Growing):
    """``base``, times ``factor`` after each attempt: 10 s, 20 s, 40 s, … up to ``cap``."""

    factor: float = 2.0

    def __post_init__(self) -> None:
        _Growing.__post_init__(self)
        if not (math.isfinite(self.factor) and self.factor >= 1):
            msg = f"factor must be a number from 1 up, not {self.factor!r}"
            raise ConfigurationError(msg)

    def _multiple(self, attempt: int, most: float) -> float:
        # Compared as logarithms: 2.0 ** 1024 raises before min() could clamp it.
        if (attempt - 1) * math.log(self.factor) >= math.log(most):
            return most
        return math.pow(self.factor, attempt - 1)


@dataclass(frozen=True, slots=True)
class Fibonacci(_Growing):
    """``base`` times 1, 1, 2, 3, 5, 8, … up to ``cap``."""

    def _multiple(self, attempt: int, most: float) -> float:
        previous, current = 0, 1
        for _ in range(attempt - 1):
            if current >= most:
                break
            previous, current = current, previous + current
        return current


_KINDS: Final[Mapping[str, type[_Spread]]] = {
    "fixed": Fixed,
    "linear": Linear,
    "exponential": Exponential,
    "fibonacci": Fibonacci,
}


def to_document(backoff: Backoff) -> dict[str, object]:
    """Describe a built-in backoff as plain data that can be stored with a task or a queue.

    Raises:
        ConfigurationError: a custom callable, which only code can hold.
    """
    for kind, backoff_type in _KINDS.items():
        if type(backoff) is backoff_type:
            settings = ((name, getattr(backoff, name)) for name in _settings(backoff_type))
            return {"kind": kind} | {
                f"{name}_ms" if isinstance(value, timedelta) else name: _plain(value)
                for name, value in settings
            }
    msg = (
        f"backoff {backoff!r} cannot be stored with a task or a queue: use Fixed, Linear, "
        "Exponential or Fibonacci there, or give the callable to the handler or the manager"
    )
    raise ConfigurationError(msg)


def from_document(document: Mapping[str, object]) -> Backoff | None:
    """Read what :func:`to_document` wrote; ``None`` for anything else."""
    backoff_type = _KINDS.get(str(document.get("kind")))
    if backoff_type is None:
        return None
    settings = {
        name.removesuffix("_ms"): _duration(value) if name.endswith("_ms") else value
        for name, value in document.items()
        if name != "kind"
    }
    try:
        return backoff_type(**settings)  # type: ignore[arg-type]  # a wrong kind is caught below
    except (TypeError, ConfigurationError):
        return None


def bounded(delay: object) -> timedelta:
    """Check what a custom backoff returned, and clamp it to ``MAX_DELAY``.

    Raises:
        ConfigurationError: not a timedelta, or negative.
    """
    _check_delay("a backoff's delay", delay)
    assert isinstance(delay, timedelta)  # noqa: S101  - narrowed by the check above
    return min(delay, MAX_DELAY)


def _settings(backoff_type: type[_Spread]) -> tuple[str, ...]:
    return tuple(backoff_type.__dataclass_fields__)


def _duration(value: object) -> timedelta | None:
    try:
        return timedelta(milliseconds=value)  # type: ignore[arg-type]  # a wrong kind is caught
    except (TypeError, OverflowError):
        return None


def _plain(value: object) -> object:
    if not isinstance(value, timedelta):
        return value
    return round(min(value, MAX_DELAY) / timedelta(milliseconds=1))


def _check_delay(name: str, delay: object) -> None:
    if not isinstance(delay, timedelta):
        msg = f"{name} must be a timedelta, not {delay!r}"
        raise ConfigurationError(msg)
    if delay < timedelta(0):
        msg = f"{name} must not be negative, not {delay}"
        raise ConfigurationError(msg)
