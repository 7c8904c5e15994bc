"""Step-downs, lost replies, dropped connections: nothing twice, nothing lost, nothing hidden."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure

from gotasks_mongostore import MongoStore
from gotasks_py import (
    Enqueue,
    Manager,
    PipelineMode,
    QueuePolicy,
    TaskContext,
    TaskPolicy,
    lifecycle,
)
from gotasks_py.errors import DuplicateTaskError, StoreError, StoreUnavailableError
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status
from tests.lab import (
    HOUR,
    MINUTE,
    Lab,
    MongoHand,
    a_claim,
    a_renewal,
    raw_collection,
    ref_of,
    token_of,
)
from tests.mongo.fail_points import failing_commands

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

APP = "gotasks-failover"
FAILURE = Failure(1, "worker", "E", "no")

FailPoint = Callable[..., Any]


@pytest.fixture
async def lab(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> AsyncIterator[Lab]:
    collection = raw_collection(raw_client, namespace)
    async with AsyncMongoClient[Any](mongodb, appname=APP, heartbeatFrequencyMS=500) as client:
        store = MongoStore(
            client,
            database=collection.database.name,
            namespace=namespace,
            operation_timeout=timedelta(seconds=6),
        )
        await store.open()
        yield Lab(store, MongoHand(collection, store), "mongostore")


@pytest.fixture
def failing(raw_client: MongoClient[dict[str, Any]]) -> FailPoint:
    """Make a server fail some commands of this file's clients, and of nobody else."""

    return partial(failing_commands, raw_client, APP)


RETRIED = {"errorCode": 91, "errorLabels": ["RetryableWriteError"]}
NOT_PRIMARY = {"errorCode": 10107}
# The server has done the work; what says so is lost with the connection.
REPLY_LOST = {
    "writeConcernError": {"code": 91, "errmsg": "shutting down"},
    "errorLabels": ["RetryableWriteError"],
}


@pytest.mark.parametrize("how", [{"closeConnection": True}, RETRIED, REPLY_LOST])
async def test_a_hiccup_is_not_noticed(lab: Lab, failing: FailPoint, how: dict[str, Any]) -> None:
    with failing("insert", **how):
        task_id = await lab.enqueue(unique_key="k")
    with failing("findAndModify", **how):
        task = await lab.claim()
    assert task is not None
    assert (task.id, task.attempts) == (task_id, 1)
    with failing("update", **how):
        done = lifecycle.completed({"n": 1})
        assert await lab.store.settle(ref_of(task), done) is True

    stored = await lab.get(task_id)
    assert (stored.status, stored.attempts, stored.result) == (Status.DONE, 1, {"n": 1})


@pytest.mark.parametrize("times", [1, 2])
async def test_an_insert_whose_reply_is_lost_is_no_duplicate_of_itself(
    lab: Lab, failing: FailPoint, times: int
) -> None:
    document = lab.a_task(unique_key="k")

    with failing("insert", times=times, **REPLY_LOST):
        unclear = None
        try:
            await lab.store.insert(document)
        except StoreUnavailableError as error:
            unclear = error
    assert unclear is None or unclear.task_id == document["_id"]

    # The caller does not know, and tries again.
    await lab.store.insert(document)
    assert (await lab.get(document["_id"])).status is Status.PENDING
    with pytest.raises(DuplicateTaskError) as refused:
        await lab.enqueue(unique_key="k")
    assert refused.value.existing_id == document["_id"]


async def test_an_insert_that_cannot_be_known_names_its_task(lab: Lab, failing: FailPoint) -> None:
    document = lab.a_task()

    with (
        failing("insert", times=50, closeConnection=True),
        pytest.raises(StoreUnavailableError) as unclear,
    ):
        await lab.store.insert(document)

    assert unclear.value.task_id == document["_id"]
    assert await lab.store.get(document["_id"]) is None


@pytest.mark.parametrize("how", [{"closeConnection": True}, RETRIED, REPLY_LOST])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_bulk_with_lost_replies_tells_what_is_missing_and_nothing_else(
    lab: Lab, failing: FailPoint, how: dict[str, Any], times: int
) -> None:
    holder = await lab.enqueue(unique_key="taken")
    documents = [lab.a_task(unique_key=f"k{number}") for number in range(5)]
    documents.insert(2, lab.a_task(unique_key="taken"))

    with failing("insert", times=times, **how):
        failures = await lab.store.insert_many(documents)

    stored = {
        index
        for index, document in enumerate(documents)
        if await lab.store.get(document["_id"]) is not None
    }
    assert set(failures) == set(range(6)) - stored
    assert 2 in failures
    if isinstance(failures[2], DuplicateTaskError):
        assert failures[2].existing_id == holder
    assert {type(error) for index, error in failures.items() if index != 2} <= {
        StoreUnavailableError
    }
    assert set(await lab.store.insert_many(documents)) == {2}


async def test_a_claim_whose_reply_is_lost_is_found_by_its_token(
    lab: Lab, failing: FailPoint
) -> None:
    task_id = await lab.enqueue()
    request = a_claim()

    # Twice: the driver's own retry is lost as well.
    with failing("findAndModify", times=2, **REPLY_LOST):
        try:
            task = await lab.claim(request)
        except StoreError:
            (task,) = await lab.store.find_claimed(request)

    assert task is not None
    assert (task.id, task.attempts, token_of(task)) == (task_id, 1, request.token)
    assert await lab.store.find_claimed(request) == [task]
    assert await lab.claim() is None


async def test_a_claim_that_did_not_happen_is_not_found(lab: Lab, failing: FailPoint) -> None:
    task_id = await lab.enqueue()
    request = a_claim()

    with (
        failing("findAndModify", times=50, closeConnection=True),
        pytest.raises(StoreUnavailableError),
    ):
        await lab.claim(request)

    assert await lab.store.find_claimed(request) == []
    assert (await lab.get(task_id)).attempts == 0


async def test_a_claim_of_many_whose_reply_is_lost_is_found(lab: Lab, failing: FailPoint) -> None:
    ids = {await lab.enqueue() for _ in range(3)} | {await lab.enqueue(max_attempts=1)}
    request = a_claim()

    # Drivers do not retry a write to many documents by themselves.
    with failing("update", **REPLY_LOST), pytest.raises(StoreUnavailableError):
        await lab.claim_many(request=request)
    found = await lab.store.find_claimed(request)

    assert {task.id for task in found} == ids
    for task in found:
        assert token_of(task) == lifecycle.batch_token(request.token, task.id)
    assert list(await lab.claim_many()) == []


async def test_a_settlement_of_many_whose_reply_is_lost_counts_when_repeated(
    lab: Lab, failing: FailPoint
) -> None:
    for _ in range(3):
        await lab.enqueue()
    refs = [ref_of(task) for task in await lab.claim_many()]
    values = [{"value": number} for number in range(3)]
    patch = lifecycle.completed_each()

    with failing("update", **REPLY_LOST), pytest.raises(StoreUnavailableError):
        await lab.store.settle_many(refs, patch, values)
    before = [lab.raw(ref.id) for ref in refs]

    assert await lab.store.settle_many(refs, patch, values) == frozenset()
    assert [lab.raw(ref.id) for ref in refs] == before
    assert [document["result"] for document in before] == values


@pytest.mark.parametrize("commands", [("update",), ("find", "update")])
@pytest.mark.parametrize("how", [{"closeConnection": True}, NOT_PRIMARY, RETRIED, REPLY_LOST])
async def test_a_pipeline_claims_and_settles_within_its_leases_whatever_its_writes_meet(
    lab: Lab, failing: FailPoint, how: dict[str, Any], commands: tuple[str, ...]
) -> None:
    ran = Counter[tuple[int, int]]()
    mode = PipelineMode(batch=10, flush_size=5)
    worker = Manager(
        lab.store, queues=[QueuePolicy("q")], workers=4, mode=mode, lease=HOUR, janitor=None
    )

    @worker.handler("q", "t")
    async def work(ctx: TaskContext, number: int) -> int:
        ran[number, ctx.attempt] += 1
        return 2 * number

    handles = await worker.enqueue_many(
        Enqueue("q", "t", number, TaskPolicy(max_attempts=1 + number % 3)) for number in range(30)
    )
    with failing(*commands, times=5, **how):
        async with worker:
            with anyio.fail_after(40):
                while any(lab.raw(handle.id)["status"] != "done" for handle in handles):
                    await anyio.sleep(0.05)

    assert ran == {(number, 1): 1 for number in range(30)}
    for number, handle in enumerate(handles):
        assert lab.raw(handle.id)["result"] == {"value": 2 * number}
        assert lab.raw(handle.id)["attempts"] == 1


async def test_a_start_whose_reply_is_lost_is_one_attempt(lab: Lab, failing: FailPoint) -> None:
    await lab.enqueue(max_attempts=1)
    (reserved,) = await lab.claim_many()
    start = lifecycle.started(owner="me", lease=MINUTE)

    # Twice: the driver's own retry is lost as well.
    with failing("update", times=2, **REPLY_LOST):
        try:
            assert await lab.store.settle(ref_of(reserved), start)
        except StoreUnavailableError:
            assert await lab.store.settle(ref_of(reserved), start)

    assert (await lab.get(reserved.id)).attempts == 1
    assert await lab.store.is_held(ref_of(reserved))


@pytest.mark.parametrize("way", ["completed", "retried", "released", "died", "snoozed"])
async def test_a_settlement_whose_reply_is_lost_counts_when_repeated(
    lab: Lab, failing: FailPoint, way: str
) -> None:
    task = await lab.claimed()
    token = token_of(task)
    patch = {
        "completed": lifecycle.completed({"n": 1}),
        "retried": lifecycle.retried(FAILURE, MINUTE),
        "released": lifecycle.released(),
        "died": lifecycle.died(FAILURE),
        "snoozed": lifecycle.snoozed(MINUTE),
    }[way]

    with failing("update", times=2, **REPLY_LOST):
        try:
            assert await lab.store.settle(ref_of(task), patch) is True
        except StoreUnavailableError:
            assert await lab.store.settle(ref_of(task), patch) is True
    before = lab.raw(task.id)
    assert await lab.store.settle(ref_of(task), patch) is True

    assert lab.raw(task.id) == before
    assert str(before["settle_token"]).startswith(token)
    assert len((await lab.get(task.id)).errors) == (way in {"retried", "died"})


@pytest.mark.parametrize("how", [{"closeConnection": True}, RETRIED, REPLY_LOST])
async def test_a_renewal_that_is_disturbed_may_be_repeated(
    lab: Lab, failing: FailPoint, how: dict[str, Any]
) -> None:
    tasks = [await lab.claimed() for _ in range(2)]
    renewals = [a_renewal(task) for task in tasks]

    # Drivers do not retry a write to many documents by themselves.
    with failing("update", **how), pytest.raises(StoreUnavailableError):
        await lab.store.renew(renewals)

    assert (await lab.store.renew(renewals)).lost == frozenset()


async def test_errors_that_do_not_pass_are_not_called_an_outage(
    lab: Lab, failing: FailPoint
) -> None:
    with failing("find", errorCode=8), pytest.raises(StoreError) as refused:
        await lab.store.get(lab.store.new_id())

    assert not isinstance(refused.value, StoreUnavailableError)
    assert isinstance(refused.value.__cause__, OperationFailure)


async def test_a_slow_server_is_given_up_on_in_time(
    lab: Lab, failing: FailPoint, mongodb: str, namespace: str
) -> None:
    async with AsyncMongoClient[Any](mongodb, appname=APP) as client:
        hasty = MongoStore(
            client,
            database="gotasks_tests",
            namespace=namespace,
            operation_timeout=timedelta(milliseconds=300),
        )
        await hasty.open()
        with (
            failing("find", times=1, blockConnection=True, blockTimeMS=2_000),
            anyio.fail_after(1.5),
            pytest.raises(StoreUnavailableError),
        ):
            await hasty.get(hasty.new_id())


async def test_work_goes_on_after_a_step_down(
    lab: Lab, raw_client: MongoClient[dict[str, Any]]
) -> None:
    running = await lab.claimed(unique_key="running")

    step_down(raw_client)
    task_id = await lab.enqueue(unique_key="k")
    task = await lab.claim()
    assert task is not None
    assert (task.id, task.attempts) == (task_id, 1)
    assert (await lab.store.renew([a_renewal(running, HOUR)])).lost == frozenset()
    assert await lab.store.settle(ref_of(running), lifecycle.completed(None))

    assert (await lab.get(running.id)).status is Status.DONE


async def test_a_step_down_in_the_midst_loses_and_doubles_nothing(
    lab: Lab, raw_client: MongoClient[dict[str, Any]]
) -> None:
    claimed = list[object]()
    inserted = list[object]()
    is_over = False

    async def produce() -> None:
        while not is_over:
            inserted.append(await lab.enqueue())

    async def consume() -> None:
        while not (is_over and len(claimed) == len(inserted)):
            task = await lab.claim(lease=HOUR)
            if task is not None:
                assert task.attempts == 1
                claimed.append(task.id)
                done = lifecycle.completed(None)
                assert await lab.store.settle(ref_of(task), done)

    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(produce)
            for _ in range(4):
                group.start_soon(consume)
            while len(claimed) < 20:
                await anyio.sleep(0.01)
            await anyio.to_thread.run_sync(step_down, raw_client)
            at_step_down = len(claimed)
            while len(claimed) < at_step_down + 20:
                await anyio.sleep(0.01)
            is_over = True

    assert len(claimed) == len(set(claimed)) == len(inserted)
    assert set(claimed) == set(inserted)


def step_down(client: MongoClient[dict[str, Any]]) -> None:
    client.admin.command("replSetStepDown", 1, secondaryCatchUpPeriodSecs=0, force=True)
