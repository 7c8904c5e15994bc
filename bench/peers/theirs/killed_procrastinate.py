"""procrastinate on PostgreSQL; it keeps a job's state, but no result."""

from procrastinate import App, JobContext, PsycopgConnector

from bench.peers import inside
from bench.peers.kill import witness

PACKAGES = ("procrastinate", "psycopg")
app = App(
    connector=PsycopgConnector(conninfo=inside.url()),
    worker_defaults={
        "update_heartbeat_interval": witness.DEADLINE_SECONDS / 3,
        "stalled_worker_timeout": witness.DEADLINE_SECONDS,
    },
)
_jobs: dict[str, int] = {}


@app.task(name="work")
async def perform(task: str, seconds: float) -> None:
    """Take a while."""
    await witness.execute_async(task, seconds)


if inside.variant() == "safest":

    @app.periodic(cron="* * * * * */5")
    @app.task(queueing_lock="stalled", pass_context=True)
    async def retry_stalled_jobs(context: JobContext, timestamp: int) -> None:  # noqa: ARG001
        """Retry what workers without a heartbeat hold, as the documentation shows it."""
        manager = context.app.job_manager
        silence = witness.DEADLINE_SECONDS
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=silence):
            await manager.retry_job(job)


async def prepare() -> None:
    """Connect and install the schema."""
    await app.open_async()
    await app.schema_manager.apply_schema_async()


async def send(task: str, seconds: float) -> None:
    """Enqueue a task."""
    _jobs[task] = await perform.defer_async(task=task, seconds=seconds)


async def record(task: str) -> tuple[str, str | None]:
    """Read the job's state."""
    return (await app.job_manager.get_job_status_async(_jobs[task])).value, None


def work() -> None:
    """Run the library's own worker."""
    inside.run("procrastinate", "--app", f"{__name__}.app", "worker")
