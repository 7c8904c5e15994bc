"""What goes over the wire: where it is addressed, how safely, and how often."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pymongo import MongoClient

from gotasks_py import JanitorConfig, Manager, MetricsConfig, QueuePolicy, lifecycle
from gotasks_py.errors import DuplicateTaskError
from gotasks_py.lifecycle import Failure
from gotasks_py.store import Store
from gotasks_py.task import Task
from tests.lab import (
    HOUR,
    MINUTE,
    SECOND,
    Lab,
    a_claim,
    a_renewal,
    raw_collection,
    ref_of,
)
from tests.mongo.recorder import Recorded, recorded_lab

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

FAILURE = Failure(1, "worker", "E", "no")
READS = {"find", "count", "aggregate", "distinct"}


@pytest.fixture
async def recorded(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> AsyncIterator[Recorded]:
    async with recorded_lab(mongodb, raw_collection(raw_client, namespace)) as made:
        yield made


def name_of(command: dict[str, Any]) -> str:
    return next(iter(command))


def names_of(commands: list[dict[str, Any]]) -> list[str]:
    return [name_of(command) for command in commands]


def addressed(command: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a command that say which tasks it is for."""
    match name_of(command):
        case "insert":
            yield from command["documents"]
        case "update":
            yield from (each["q"] for each in command["updates"])
        case "findAndModify":
            yield command["query"]
        case "find":
            yield command["filter"]
        case other:
            pytest.fail(f"unexpected command {other}")


async def claimed(lab: Lab, **fields: object) -> Task:
    """Claim a new task of a queue whose name and lane are looked for."""
    await lab.enqueue(queue="here", lane=3, **fields)
    task = await lab.claim(queue="here", lanes=(3,))
    assert task is not None
    return task


async def test_every_command_of_the_hot_path_names_queue_and_lane(recorded: Recorded) -> None:
    lab, store = recorded.lab, recorded.lab.store
    with recorded.recorder.recording() as sent:
        await store.insert_many([lab.a_task(queue="here", lane=3) for _ in range(3)])
        task = await claimed(lab)
        await lab.claim(queue="here", lanes=(3,))
        await lab.claim(queue="here", lanes=(3,), types=("none",))
        await store.find_claimed(a_claim("here", lanes=(3,)))
        await store.is_held(ref_of(task))
        await store.settle(ref_of(task), lifecycle.progressed(1))
        await store.settle(ref_of(task), lifecycle.extended(HOUR))
        await store.renew([a_renewal(task), a_renewal(task)])
        patch = lifecycle.retried(FAILURE, MINUTE)
        await store.settle(ref_of(task), patch)
        await store.settle(ref_of(task), patch)
        renewer = store.open_renewer(5 * SECOND)
        assert renewer is not None
        await anyio.to_thread.run_sync(renewer.renew, [a_renewal(task)])
        renewer.close()
        await store.insert_many([lab.a_task(queue="here", lane=3) for _ in range(3)])
        await lab.enqueue(queue="here", lane=3, max_attempts=1)
        *running, reserved = await lab.claim_many(queue="here", lanes=(3,))
        await store.settle(ref_of(reserved), lifecycle.unreserved())
        refs = [ref_of(each) for each in running]
        await store.settle_many(refs, lifecycle.completed_each(), [{"value": 1}] * len(refs))
        await store.settle_many(refs, lifecycle.released())

    assert len(sent) >= 24
    for command in sent:
        for part in addressed(command):
            assert part["queue"] in ("here", {"$in": ["here"]}), command
            assert part["lane"] in (3, {"$in": [3]}), command


async def test_a_claim_of_several_lanes_is_one_command_that_names_them(
    recorded: Recorded,
) -> None:
    lanes = tuple(range(16))
    await recorded.lab.enqueue(queue="here", lane=7, max_attempts=1)
    request = a_claim("here", lanes=lanes)

    with recorded.recorder.recording() as sent:
        assert await recorded.lab.claim(request) is not None
        assert await recorded.lab.claim(queue="here", lanes=lanes) is None
        (found,) = await recorded.lab.store.find_claimed(request)
        assert await recorded.lab.store.settle(ref_of(found), lifecycle.completed(None))

    *claims, settled = (part for command in sent for part in addressed(command))
    assert len(claims) == 4  # two to find one of a last attempt by its token
    assert all(part["queue"] == "here" for part in (*claims, settled))
    assert all(part["lane"] == {"$in": list(lanes)} for part in claims)
    assert settled["lane"] == 7


@pytest.mark.parametrize(("types", "commands"), [(3, 1), (4, 2), (200, 64), (300, 64)])
async def test_a_claim_of_more_lanes_and_types_than_the_planner_merges_is_divided(
    recorded: Recorded, types: int, commands: int
) -> None:
    names = tuple(f"t{number}" for number in range(types))
    await recorded.lab.enqueue(queue="here", lane=63, type="t2")

    with recorded.recorder.recording() as sent:
        task = await recorded.lab.claim(queue="here", lanes=tuple(range(64)), types=names)

    assert task is not None
    assert task.lane == 63
    assert len(sent) == commands


async def test_the_holder_of_a_key_is_looked_up_by_queue_and_lane(recorded: Recorded) -> None:
    await recorded.lab.enqueue(queue="here", lane=3, unique_key="k")

    with recorded.recorder.recording() as sent, pytest.raises(DuplicateTaskError):
        await recorded.lab.enqueue(queue="here", lane=3, unique_key="k")

    assert sent[-1]["filter"] == {"queue": "here", "lane": 3, "unique_key": "k"}


@pytest.mark.parametrize(
    "options",
    [
        "w=0",
        "w=1&journal=false",
        "w=1&wtimeoutMS=1",
        "readPreference=secondary",
        "readPreference=nearest&readConcernLevel=local",
        "readConcernLevel=available&w=0&readPreference=secondaryPreferred",
        "retryWrites=false&retryReads=false",
    ],
)
async def test_durability_does_not_depend_on_the_uri(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str, options: str
) -> None:
    uri = f"{mongodb}{'&' if '?' in mongodb else '/?'}{options}"
    async with recorded_lab(uri, raw_collection(raw_client, namespace)) as recorded:
        lab, store = recorded.lab, recorded.lab.store
        with recorded.recorder.recording() as sent:
            await store.register_queue(QueuePolicy("here"))
            await store.set_queue_policy(QueuePolicy("here", max_attempts=2))
            await store.queues()
            await store.insert_many([lab.a_task(queue="other") for _ in range(3)])
            task = await claimed(lab, unique_key="k")
            with pytest.raises(DuplicateTaskError):
                await claimed(lab, unique_key="k")
            await store.find_claimed(a_claim("here", lanes=(3,)))
            await store.renew([a_renewal(task)])
            renewer = store.open_renewer(5 * SECOND)
            assert renewer is not None
            await anyio.to_thread.run_sync(renewer.renew, [a_renewal(task)])
            renewer.close()
            await store.is_held(ref_of(task))
            await lab.enqueue(queue="here", lane=3)
            (other,) = await lab.claim_many(queue="here", lanes=(3,))
            await store.settle_many([ref_of(other)], lifecycle.released())
            await store.delete(other.id)
            await store.settle(ref_of(task), lifecycle.died(FAILURE))
            await store.get(task.id)
            assert [each async for each in store.dead_ids(queue=None, type=None)] == [task.id]
            await store.transition(task.id, lifecycle.requeued(fresh_lifetime=True))
            await store.reap(1)
            await store.delete(task.id)

        assert len(sent) >= 18
        for command in sent:
            if name_of(command) in READS:
                assert command["readConcern"] == {"level": "majority"}, command
            else:
                assert command["writeConcern"] == {"w": "majority"}, command
            preference = command.get("$readPreference", {"mode": "primary"})
            assert preference["mode"].startswith("primary"), command


async def test_many_are_claimed_in_two_commands_and_settled_in_one(recorded: Recorded) -> None:
    lab = recorded.lab
    await lab.store.insert_many([lab.a_task() for _ in range(200)])

    with recorded.recorder.recording() as sent:
        tasks = await lab.claim_many(150)
        refs = [ref_of(task) for task in tasks]
        values = [{"value": number} for number in range(150)]
        await lab.store.settle_many(refs, lifecycle.completed_each(), values)

    assert names_of(sent) == ["find", "update", "update"]
    assert all(len(each["updates"]) == 1 for each in sent if "updates" in each)


async def test_enqueue_claim_and_settle_take_one_round_trip_each(recorded: Recorded) -> None:
    lab = recorded.lab
    await lab.claimed()
    await lab.enqueue()
    with recorded.recorder.recording() as sent:
        await lab.enqueue()
    assert names_of(sent) == ["insert"]

    with recorded.recorder.recording() as sent:
        task = await lab.claim()
    assert names_of(sent) == ["findAndModify"]
    assert task is not None

    with recorded.recorder.recording() as sent:
        await lab.store.settle(ref_of(task), lifecycle.completed({"value": 1}))
    assert names_of(sent) == ["update"]


async def test_a_thousand_are_inserted_in_one_round_trip(recorded: Recorded) -> None:
    documents = [recorded.lab.a_task() for _ in range(1_000)]

    with recorded.recorder.recording() as sent:
        await recorded.lab.store.insert_many(documents)

    assert names_of(sent) == ["insert"]


async def test_all_leases_are_renewed_in_one_round_trip(recorded: Recorded) -> None:
    tasks = [await recorded.lab.claimed() for _ in range(30)]

    with recorded.recorder.recording() as sent:
        await recorded.lab.store.renew([a_renewal(task) for task in tasks])

    assert names_of(sent) == ["update"]
    assert len(sent[0]["updates"]) == 1


async def test_a_manager_enqueues_in_one_round_trip_and_runs_a_task_in_two(
    recorded: Recorded,
) -> None:
    manager = Manager(
        recorded.lab.store,
        queues=[QueuePolicy("q")],
        workers=1,
        janitor=None,
        metrics=None,
        fallback_poll=timedelta(seconds=30),
    )

    @manager.handler("q", "double")
    async def double(number: int) -> int:
        return 2 * number

    await double.enqueue(1)
    with recorded.recorder.recording() as sent:
        for number in range(5):
            await manager.enqueue("q", "double", number)
    assert names_of(sent) == ["insert"] * 5

    with recorded.recorder.recording() as sent:
        async with manager:
            with anyio.fail_after(20):
                while names_of(sent).count("update") < 6:
                    await anyio.sleep(0.01)
            commands = names_of(sent)
    updates = [name for name in commands if name == "update"]
    claims = [name for name in commands if name == "findAndModify"]
    assert len(updates) == 6
    # One for each task, and the looks at the end that find no more.
    assert 6 <= len(claims) <= 6 + 2


def idle_manager(store: Store, *, workers: int, queues: int) -> Manager:
    manager = Manager(
        store,
        queues=[QueuePolicy(f"q{number}") for number in range(queues)],
        workers=workers,
        fallback_poll=timedelta(milliseconds=100),
        janitor=JanitorConfig(reap_interval=timedelta(seconds=60)),
        metrics=MetricsConfig(interval=timedelta(hours=1)),
    )

    async def ignore(payload: int) -> None: ...

    for number in range(queues):
        manager.handler(f"q{number}", "t")(ignore)
    return manager


POLLS = {"findAndModify", "find"}


async def has_settled(recorded: Recorded) -> None:
    """Wait until the first looks, the registration and the first reports are over."""
    commands: Sequence[str] = ["none yet"]
    while not commands or not set(commands) <= POLLS:
        with recorded.recorder.recording() as sent:
            await anyio.sleep(0.5)
            commands = names_of(sent)


@pytest.mark.parametrize("workers", [1, 32])
@pytest.mark.parametrize("queues", [1, 3])
async def test_an_idle_manager_sends_no_more_than_its_poll_rate(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, workers: int, queues: int
) -> None:
    store = recorded.lab.store
    monkeypatch.setattr(store, "watch", lambda **_: None)  # as on a standalone server

    async with idle_manager(store, workers=workers, queues=queues):
        await has_settled(recorded)
        with recorded.recorder.recording() as sent:
            started = anyio.current_time()
            await anyio.sleep(1.5)
            commands = names_of(sent)
            seconds = anyio.current_time() - started
            found = [each for each in sent if "find" in each]

    assert set(commands) <= POLLS
    assert commands.count("findAndModify") <= queues * (seconds / 0.1 + 1)
    # What queues are told to do, and what managers are told, is read once a second each.
    orders = [
        each for each in found if each["find"].endswith("_queues") and len(each["filter"]) == 1
    ]
    assert len(orders) <= 2 * (seconds + 1)
    looked = [str(each["filter"]) for each in found if each not in orders]
    assert len(looked) == len(set(looked))  # for the janitor, at most once in a minute


@pytest.mark.parametrize("workers", [1, 32])
async def test_an_idle_manager_that_is_told_of_changes_sends_nothing_but_waits(
    recorded: Recorded, workers: int
) -> None:
    manager = idle_manager(recorded.lab.store, workers=workers, queues=3)
    async with manager:
        with anyio.fail_after(20):
            while not manager.health().is_stream_connected:
                await anyio.sleep(0.01)
        commands = ["first looks, the gap, surveys of what is due next"]
        with anyio.fail_after(40):
            while set(commands) - {"getMore"}:
                with recorded.recorder.recording() as sent:
                    await anyio.sleep(3)
                    commands = names_of(sent)

    assert len(commands) <= 1
