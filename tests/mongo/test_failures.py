"""Which of the driver's errors are outages, and which are refusals."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError, WriteError

from gotasks_mongostore._failures import translated
from gotasks_mongostore._inserts import insert_many
from gotasks_py.errors import StoreError, StoreUnavailableError

pytestmark = pytest.mark.anyio

NO_PRIMARY = {"index": 0, "code": 10107, "errmsg": "Not primary while writing to tasks"}
INVALID = {"index": 0, "code": 121, "errmsg": "Document failed validation"}


def write_error(told: dict[str, Any]) -> WriteError:
    return WriteError(told["errmsg"], told["code"], told)


def bulk_error(*told: dict[str, Any]) -> BulkWriteError:
    return BulkWriteError({"writeErrors": list(told), "writeConcernErrors": []})


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [
        # A server that steps down in the midst of a write tells of it for a single document.
        (write_error(NO_PRIMARY), True),
        (write_error({**NO_PRIMARY, "code": 189}), True),
        (write_error({**NO_PRIMARY, "code": 11602}), True),
        (write_error(INVALID), False),
        (bulk_error(NO_PRIMARY, NO_PRIMARY), True),
        (bulk_error(NO_PRIMARY, INVALID), False),
        (bulk_error(INVALID), False),
        (bulk_error(), True),
        # One that has just started, and a router whose shard has gone.
        (OperationFailure("no majority is known yet", 134), True),
        (OperationFailure("the shard did not answer", 6), True),
        (OperationFailure("there is no such command", 59), False),
    ],
)
def test_what_may_pass_by_itself_is_an_outage(error: PyMongoError, is_outage: bool) -> None:
    with pytest.raises(StoreError) as raised, translated("write", task_id="t"):
        raise error

    assert isinstance(raised.value, StoreUnavailableError) is is_outage


class Stepping:
    """A collection whose primary steps down while it inserts."""

    async def insert_many(self, *_: object, **__: object) -> None:
        raise bulk_error(NO_PRIMARY, {**INVALID, "index": 1})


async def test_a_bulk_that_meets_a_step_down_tells_outages_from_refusals() -> None:
    tasks = cast("AsyncCollection[dict[str, object]]", Stepping())

    refused, unclear = await insert_many(tasks, [{"_id": "a"}, {"_id": "b"}])

    assert unclear is None
    assert set(refused) == {0, 1}
    outage, refusal = refused[0], refused[1]
    assert isinstance(outage, StoreUnavailableError)
    assert outage.task_id == "a"
    assert isinstance(refusal, StoreError)
    assert not isinstance(refusal, StoreUnavailableError)
