"""What a manager is given, held against what it can use: an error now, not at the first task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from gotasks_py._janitor import JanitorConfig
from gotasks_py.checks import LONGEST, check_count, seconds_of
from gotasks_py.errors import ConfigurationError
from gotasks_py.hooks import Hooks
from gotasks_py.metrics import MetricsConfig
from gotasks_py.policy import QueuePolicy

# A MongoDB document holds 16 MiB; payload, result and bookkeeping share it.
_MOST_BYTES: Final = 12 * 1024 * 1024


def classes_of(what: str, kinds: Sequence[type[BaseException]]) -> tuple[type[BaseException], ...]:
    """Read a sequence of exception classes; a class without brackets is an easy mistake."""
    if isinstance(kinds, type):
        msg = f"{what} must be a sequence of exception classes: [{kinds.__name__}]"
        raise ConfigurationError(msg)
    if not isinstance(kinds, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  - checked for those who do not check types
        msg = f"{what} must be a sequence of exception classes, not {kinds!r}"
        raise ConfigurationError(msg)
    return tuple(kinds)


def check_store(store: object) -> None:
    """Refuse what is not a store."""
    # Not isinstance: what tests wrap around a store need not name every method.
    if isinstance(store, type) or not hasattr(store, "claim"):
        msg = f"store must be a store, such as MemStore() or MongoStore(...), not {store!r}"
        raise ConfigurationError(msg)


def check_parts(hooks: object, middleware: object, janitor: object, metrics: object) -> None:
    """Refuse what would only fail when a task comes along."""
    several = [hooks] if isinstance(hooks, Hooks) else hooks
    if not isinstance(several, Sequence) or not all(isinstance(each, Hooks) for each in several):
        msg = f"hooks must be Hooks(...) or a sequence of them, not {hooks!r}"
        raise ConfigurationError(msg)
    if not isinstance(middleware, Sequence) or not all(map(callable, middleware)):
        msg = f"middleware must be a sequence of functions (ctx, call_next), not {middleware!r}"
        raise ConfigurationError(msg)
    if janitor is not None and not isinstance(janitor, JanitorConfig):
        msg = f"janitor must be a JanitorConfig or None, not {janitor!r}"
        raise ConfigurationError(msg)
    if metrics is not None and not isinstance(metrics, MetricsConfig):
        msg = f"metrics must be a MetricsConfig or None, not {metrics!r}"
        raise ConfigurationError(msg)


def queues_by_name(queues: Sequence[QueuePolicy]) -> dict[str, QueuePolicy]:
    """Sort declarations by their names, each of which may come once."""
    if not isinstance(queues, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  - one without brackets is an easy mistake
        msg = f"queues must be a sequence of QueuePolicy objects, not {queues!r}"
        raise ConfigurationError(msg)
    by_name: dict[str, QueuePolicy] = {}
    for queue in queues:
        if not isinstance(queue, QueuePolicy):  # pyright: ignore[reportUnnecessaryIsInstance]  - a name alone is an easy mistake
            msg = f"queues must be QueuePolicy objects, not {queue!r}: QueuePolicy({queue!r})"
            raise ConfigurationError(msg)
        if queue.name in by_name:
            msg = f"queue {queue.name!r} is declared twice"
            raise ConfigurationError(msg)
        by_name[queue.name] = queue
    return by_name


def check_limits(payload_limit: int, result_limit: int) -> None:
    """Refuse sizes that together would not fit a document."""
    check_count("payload_limit", payload_limit)
    check_count("result_limit", result_limit)
    if payload_limit + result_limit > _MOST_BYTES:
        msg = (
            f"payload_limit and result_limit together must be at most {_MOST_BYTES} bytes, so that "
            f"both fit a document of 16 MiB with the errors; they are {payload_limit} and "
            f"{result_limit}"
        )
        raise ConfigurationError(msg)


def span_of(timeout: timedelta | float) -> timedelta:
    """Read a grace that may be given in seconds, and as long as you like."""
    seconds = seconds_of("timeout", timeout)
    return timedelta(seconds=min(seconds, LONGEST.total_seconds()))
