"""Names that a command was given and that nobody knows: a typing error is not an empty answer."""

from __future__ import annotations

from collections.abc import Sequence

from gotasks_cli._problems import ExitCode, Problem
from gotasks_py import Manager, TaskFilter


async def check_queue(manager: Manager, queue: str | None) -> None:
    """Refuse a queue that neither the store has recorded nor the manager has handlers for.

    Raises:
        Problem: nobody knows it.
    """
    if queue is None or manager.types(queue):
        return
    recorded = await manager.store.queues()
    if queue not in recorded:
        raise no_queue(queue, sorted(recorded))


def no_queue(queue: str, recorded: Sequence[str]) -> Problem:
    """Say that the store has not recorded a queue."""
    return Problem(
        f"the store has no queue {queue!r}; it has {listed(recorded)}", ExitCode.NOT_FOUND
    )


async def check_found(manager: Manager, wanted: TaskFilter, found: object) -> None:
    """When nothing was found, refuse a type or fingerprint that nobody knows.

    Raises:
        Problem: no handler and no task has it.
    """
    if found:
        return
    if wanted.type is not None and not await _is_type(manager, wanted.queue, wanted.type):
        where = "" if wanted.queue is None else f" in queue {wanted.queue!r}"
        msg = f"no handler and no task is of type {wanted.type!r}{where}"
        raise Problem(msg, ExitCode.NOT_FOUND)
    if wanted.fingerprint is not None:
        alike = TaskFilter(queue=wanted.queue, fingerprint=wanted.fingerprint)
        if not (await manager.count_tasks(alike, limit=1)).value:
            msg = f"no dead letter has the fingerprint {wanted.fingerprint!r}"
            raise Problem(msg, ExitCode.NOT_FOUND)


def listed(names: Sequence[str]) -> str:
    """List names in a sentence."""
    return ", ".join(map(repr, names)) or "none"


async def _is_type(manager: Manager, queue: str | None, type: str) -> bool:
    queues = await manager.store.queues() if queue is None else (queue,)
    if any(type in manager.types(name) for name in queues):
        return True
    return bool((await manager.count_tasks(TaskFilter(queue=queue, type=type), limit=1)).value)
