"""What the demo's producer and its workers share: the queue, the types of tasks, one voice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from gotasks_py import Exponential, QueuePolicy, Task, TaskType


class Letter(BaseModel):
    """To whom to write."""

    to: str


class Payment(BaseModel):
    """What to charge."""

    order: int
    cents: int


class Receipt(BaseModel):
    """That something was done, and under which reference."""

    reference: str


class Picture(BaseModel):
    """A picture to shrink."""

    name: str


class Thumbnail(BaseModel):
    """A picture that was shrunk, and by whom."""

    name: str
    worker: str


class Catalogue(BaseModel):
    """Something long to print."""

    pages: int


# Short delays, so that the demo is short.
SHOP = QueuePolicy(
    "shop", max_attempts=3, backoff=Exponential(base=timedelta(milliseconds=400), jitter=0)
)

WELCOME = TaskType("shop", "welcome", Letter, Receipt)
CHARGE = TaskType("shop", "charge", Payment, Receipt)
REMIND = TaskType("shop", "remind", Letter, Receipt)
REPORT = TaskType("shop", "report", str, Receipt)
THUMBNAIL = TaskType("shop", "thumbnail", Picture, Thumbnail)
INVOICE = TaskType("shop", "invoice", Payment, Receipt)
CATALOGUE = TaskType("shop", "catalogue", Catalogue, Receipt)


def tell(who: str, what: str, about: str, details: str = "") -> None:
    """Print one line of the account; every process of the demo prints its own."""
    now = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
    print(f"{now}  {who:<6}  {what:<9}  {about:<17}  {details}".rstrip(), flush=True)


def label(task: Task) -> str:
    """Name a task by its type and the end of its id."""
    return f"{task.type} {str(task.id)[-6:]}"


def worker_of(owner: str) -> str:
    """Tell which worker process a lease belongs to: a manager's id begins with its name."""
    return owner.partition(".")[0]
