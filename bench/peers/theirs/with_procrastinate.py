"""procrastinate: rows of PostgreSQL, one fetched at a time, and LISTEN to be woken."""

from procrastinate import App, PsycopgConnector

from bench.peers import inside

PACKAGES = ("procrastinate", "psycopg")
app = App(connector=PsycopgConnector(conninfo=inside.url()))


@app.task(name="note")
async def note(*, to: str, subject: str, number: int) -> None:  # noqa: ARG001
    """Do nothing."""
    inside.ledger.note(number)


async def prepare() -> None:
    """Connect and install the schema."""
    await app.open_async()
    await app.schema_manager.apply_schema_async()


async def enqueue_one(number: int) -> None:
    """Enqueue a task."""
    await note.defer_async(**inside.payload(number))


async def enqueue_many(numbers: range) -> None:
    """Enqueue lists."""
    for chunk in inside.chunks(numbers):
        await note.batch_defer_async(*map(inside.payload, chunk))


def work() -> None:
    """Run the library's own worker, deleting what is done."""
    options = ("--concurrency", "10", "--delete-jobs", "always")
    inside.run("procrastinate", "--app", f"{__name__}.app", "worker", *options)
