"""Who is killed and frozen, with which settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.peers.catalogue import CONTESTANTS, Contestant

_BY_NAME: Final = {contestant.name: contestant for contestant in CONTESTANTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A library with one way to set it up.

    Args:
        contestant: Whose environment and server it runs with.
        setting: What its module is told.
        chosen: Its settings in words.
        waits: What tells that a worker is gone: by default, and here.
        patience: After how many seconds nobody is expected to run a task again.
    """

    name: str
    title: str
    contestant: Contestant
    module: str
    setting: str
    chosen: str = "defaults"
    waits: str
    patience: float = 45.0


def _ours(name: str, title: str, setting: str, chosen: str) -> Subject:
    return Subject(
        name=name,
        title=title,
        contestant=_BY_NAME["gotasks"],
        module="bench.peers.ours.killed_gotasks",
        setting=setting,
        chosen=chosen,
        waits="`lease` 60 s → 10 s",
    )


def _theirs(  # noqa: PLR0913  - a row of a table
    name: str,
    title: str,
    contestant: str,
    setting: str,
    *,
    chosen: str = "defaults",
    waits: str = "",
    patience: float = 45.0,
    module: str | None = None,
) -> Subject:
    library = module or contestant.partition("-")[0]
    return Subject(
        name=name,
        title=title,
        contestant=_BY_NAME[contestant],
        module=f"bench.peers.theirs.killed_{library}",
        setting=setting,
        chosen=chosen,
        waits=waits,
        patience=patience,
    )


_HEARTBEAT: Final = "heartbeat 60 s → 10 s"
_VISIBILITY: Final = "`visibility_timeout` 5 min → 10 s"
_SWEEP: Final = "`timeout` 10 s, `sweep` 60 s → 10 s"

SUBJECTS: Final = (
    _ours("gotasks", "gotasks_py, single mode", "single:default", "defaults"),
    _ours("gotasks-once", "gotasks_py, single mode", "single:once", "`max_attempts=1`"),
    _ours("gotasks-thread", "gotasks_py, single mode", "single:thread", "a plain function"),
    _ours("gotasks-pipeline", "gotasks_py, pipeline mode", "pipeline:default", "defaults"),
    _ours(
        "gotasks-pipeline-once", "gotasks_py, pipeline mode", "pipeline:once", "`max_attempts=1`"
    ),
    _theirs("celery", "Celery", "celery", "default"),
    _theirs(
        "celery-safest",
        "Celery",
        "celery-late",
        "safest",
        chosen="`acks_late`, `reject_on_worker_lost`, prefetch 1",
        waits="`visibility_timeout` 1 h → 10 s, swept every 100 s → 5 s",
    ),
    _theirs("taskiq", "taskiq", "taskiq-list", "list", chosen="`ListQueueBroker`"),
    _theirs(
        "taskiq-safest",
        "taskiq",
        "taskiq",
        "stream",
        chosen="`RedisStreamBroker`, `unacknowledged_lock_timeout`",
        waits="`idle_timeout` 10 min → 10 s",
    ),
    _theirs("arq", "arq", "arq", "default", waits="`job_timeout` 5 min → 10 s, and 10 s"),
    _theirs(
        "arq-safest",
        "arq",
        "arq",
        "safest",
        chosen="`job_completion_wait=30`",
        waits="`job_timeout` 5 min → 10 s, and 10 s",
    ),
    _theirs("saq", "SAQ", "saq", "default", waits=_SWEEP, patience=90.0),
    _theirs(
        "saq-safest",
        "SAQ",
        "saq",
        "safest",
        chosen="`retries=3`, `shutdown_grace_period_s=30`",
        waits=_SWEEP,
        patience=90.0,
    ),
    _theirs("dramatiq", "dramatiq", "dramatiq", "default", waits=_HEARTBEAT, patience=90.0),
    _theirs(
        "dramatiq-safest",
        "dramatiq",
        "dramatiq",
        "safest",
        chosen="`maintenance_chance` 100 %",
        waits=_HEARTBEAT,
    ),
    _theirs("streaq", "streaq", "streaq", "default", waits="`idle_timeout` 60 s → 10 s"),
    _theirs(
        "streaq-safest",
        "streaq",
        "streaq",
        "safest",
        chosen="`grace_period=30`",
        waits="`idle_timeout` 60 s → 10 s",
    ),
    _theirs(
        "procrastinate",
        "procrastinate",
        "procrastinate",
        "default",
        waits="`stalled_worker_timeout` 30 s → 10 s",
    ),
    _theirs(
        "procrastinate-safest",
        "procrastinate",
        "procrastinate",
        "safest",
        chosen="a periodic task retries stalled jobs",
        waits="`stalled_worker_timeout` 30 s → 10 s, looked for every 5 s",
    ),
    _theirs(
        "pgqueuer",
        "pgqueuer",
        "pgqueuer",
        "default",
        chosen="defaults; nothing safer to set",
        waits="`heartbeat_timeout` 30 s → 10 s",
    ),
    _theirs(
        "celery-mongodb",
        "Celery, kombu's transport on MongoDB",
        "celery-mongodb",
        "safest",
        chosen="`acks_late`, `reject_on_worker_lost`, prefetch 1",
    ),
    _theirs(
        "taskiq-mongodb",
        "taskiq-mongodb",
        "taskiq-mongodb",
        "default",
        module="taskiq_mongodb",
        waits=_VISIBILITY,
    ),
    _theirs(
        "taskiq-mongodb-safest",
        "taskiq-mongodb",
        "taskiq-mongodb",
        "safest",
        module="taskiq_mongodb",
        chosen="`max_retries=3`",
        waits=_VISIBILITY,
    ),
)
