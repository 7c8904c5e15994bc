"""Who is compared, and the truth about what each of them does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ServerKind = Literal["redis", "postgresql", "mongodb"]

DURABILITY: Final[dict[ServerKind, str]] = {
    "redis": "no (memory; a snapshot at most every minute)",
    "postgresql": "yes (WAL flushed: `synchronous_commit=on`)",
    "mongodb": "yes (majority, journaled)",
}

_AT_LEAST_ONCE: Final = "at least once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A library with a server and a way to use it.

    Args:
        share: The part of the tasks that it gets, so that a slow one takes seconds, too.
        requirements: Of its own environment; none for what runs in the project's.
        settled: When the server is told that a task is taken for good.
        after_crash: What becomes of a task whose worker was killed while it ran.
        result: What is stored of a task that is done, with the settings measured here.
    """

    name: str
    title: str
    server: ServerKind
    module: str
    requirements: tuple[str, ...] = ()
    variant: str = ""
    share: float = 1.0
    settled: str
    after_crash: str = _AT_LEAST_ONCE
    result: str = "no"

    @property
    def is_ours(self) -> bool:
        """Whether this is gotasks_py."""
        return not self.requirements


_SINGLE: Final = Contestant(
    name="gotasks",
    title="gotasks_py, single mode",
    server="mongodb",
    module="bench.peers.ours.with_gotasks",
    variant="single",
    share=0.2,
    settled="after running",
    result="yes, with the task's document",
)

_PIPELINE: Final = Contestant(
    name="gotasks-pipeline",
    title="gotasks_py, pipeline mode",
    server="mongodb",
    module="bench.peers.ours.with_gotasks",
    variant="pipeline",
    settled="after running, in batches",
    result="yes, with the task's document",
)

_CELERY: Final = ("celery[redis,mongodb]==5.7.0", "hiredis==3.5.0")
_TASKIQ: Final = ("taskiq==0.13.0", "taskiq-redis==1.2.4", "hiredis==3.5.0", "uvloop==0.23.0")
# It cannot be imported beside taskiq 0.13.
_TASKIQ_MONGODB: Final = ("taskiq==0.12.6", "taskiq-mongodb==0.1.0", "uvloop==0.23.0")

_PEERS: Final = (
    Contestant(
        name="celery",
        title="Celery, default",
        server="redis",
        module="bench.peers.theirs.with_celery",
        requirements=_CELERY,
        variant="early",
        share=0.25,
        settled="before running",
        after_crash="lost",
    ),
    Contestant(
        name="celery-late",
        title="Celery, `acks_late`",
        server="redis",
        module="bench.peers.theirs.with_celery",
        requirements=_CELERY,
        variant="late",
        share=0.25,
        settled="after running",
        after_crash="at least once, an hour later (`visibility_timeout`)",
    ),
    Contestant(
        name="taskiq",
        title="taskiq, streams",
        server="redis",
        module="bench.peers.theirs.with_taskiq",
        requirements=_TASKIQ,
        variant="stream",
        settled="after running",
        after_crash="at least once, 10 minutes later (`idle_timeout`)",
    ),
    Contestant(
        name="taskiq-list",
        title="taskiq, list",
        server="redis",
        module="bench.peers.theirs.with_taskiq",
        requirements=_TASKIQ,
        variant="list",
        settled="before running (popped)",
        after_crash="lost, with what was prefetched",
    ),
    Contestant(
        name="arq",
        title="arq",
        server="redis",
        module="bench.peers.theirs.with_arq",
        requirements=("arq==0.28.0", "hiredis==3.5.0"),
        share=0.5,
        settled="after running",
        after_crash="at least once, when its time limit has passed",
    ),
    Contestant(
        name="saq",
        title="SAQ",
        server="redis",
        module="bench.peers.theirs.with_saq",
        # It imports typing_extensions without requiring it.
        requirements=("saq[redis,hiredis]==0.26.4", "typing-extensions==4.16.0"),
        share=0.5,
        settled="after running",
        after_crash="aborted, unless `retries` was raised",
    ),
    Contestant(
        name="streaq",
        title="streaq",
        server="redis",
        module="bench.peers.theirs.with_streaq",
        requirements=("streaq==7.2.0",),
        share=0.5,
        settled="after running",
    ),
    Contestant(
        name="dramatiq",
        title="dramatiq",
        server="redis",
        module="bench.peers.theirs.with_dramatiq",
        requirements=("dramatiq[redis]==2.2.1", "hiredis==3.5.0"),
        share=0.5,
        settled="after running",
    ),
    Contestant(
        name="huey",
        title="huey",
        server="redis",
        module="bench.peers.theirs.with_huey",
        requirements=("huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"),
        variant="redis",
        settled="before running (popped)",
        after_crash="lost",
    ),
    Contestant(
        name="rq",
        title="RQ, `SimpleWorker`",
        server="redis",
        module="bench.peers.theirs.with_rq",
        requirements=("rq==3.0.0", "hiredis==3.5.0"),
        share=0.1,
        settled="after running",
        after_crash="failed, unless `retry` was given",
    ),
    Contestant(
        name="procrastinate",
        title="procrastinate",
        server="postgresql",
        module="bench.peers.theirs.with_procrastinate",
        requirements=("procrastinate==3.10.0", "psycopg[binary]==3.3.9"),
        share=0.1,
        settled="after running",
        after_crash="stays `doing`, until your code retries stalled jobs",
        result="no (deleted)",
    ),
    Contestant(
        name="pgqueuer",
        title="pgqueuer",
        server="postgresql",
        module="bench.peers.theirs.with_pgqueuer",
        requirements=("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0"),
        settled="after running, in batches",
        result="no (moved to a log table)",
    ),
    Contestant(
        name="celery-mongodb",
        title="Celery, kombu's transport",
        server="mongodb",
        module="bench.peers.theirs.with_celery",
        requirements=_CELERY,
        variant="early",
        share=0.1,
        settled="before running (found and removed)",
        after_crash="lost",
    ),
    Contestant(
        name="taskiq-mongodb",
        title="taskiq-mongodb",
        server="mongodb",
        module="bench.peers.theirs.with_taskiq_mongodb",
        requirements=_TASKIQ_MONGODB,
        share=0.1,
        settled="after running",
        after_crash="dead, unless `max_retries` was raised",
    ),
    Contestant(
        name="huey-mongodb",
        title="huey-mongodb",
        server="mongodb",
        module="bench.peers.theirs.with_huey",
        requirements=("huey-mongodb==1.1.1",),
        variant="mongodb",
        share=0.02,
        settled="before running (found and removed)",
        after_crash="lost",
    ),
)

CONTESTANTS: Final = (_PIPELINE, _SINGLE, *_PEERS)
