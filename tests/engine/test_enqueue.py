"""From a request to a stored task, and everything that is refused before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from gotasks_py import (
    ConfigurationError,
    DuplicateTaskError,
    Enqueue,
    Exponential,
    Fixed,
    GotasksError,
    HandlerError,
    JanitorConfig,
    Linear,
    Manager,
    PartialEnqueueError,
    PayloadError,
    PayloadTooLargeError,
    QueueConflictError,
    QueuePolicy,
    Status,
    StoreUnavailableError,
    TaskPolicy,
    TaskType,
    UnknownQueueError,
)
from gotasks_py._bulk import CHUNK
from gotasks_py.testing import START
from tests.engine.world import Ears, FaultyStore, a_manager, failing, seconds, settled
from tests.lab import spelled

pytestmark = pytest.mark.anyio

IST = timezone(timedelta(hours=5, minutes=30))


class Email(BaseModel):
    to: str


async def test_every_field_of_the_policy_is_stored(store: FaultyStore) -> None:
    manager = a_manager(store, QueuePolicy("q", ttl=timedelta(days=7)))
    policy = TaskPolicy(
        delay=seconds(60),
        max_attempts=7,
        unique_key="k",
        priority=-3,
        timeout=seconds(5),
        backoff=Fixed(seconds(1)),
        retry_until=seconds(100),
        tags=["a", "b"],
        metadata={"trace": {"id": "$x"}},
    )
    handle = await manager.enqueue("q", "work", {"a.b": 1}, policy)
    task = await store.stored(handle.id)
    assert task.created_at == START
    assert task.run_at == task.due_at == START + seconds(60)
    assert task.expires_at == START + seconds(60) + timedelta(days=7)
    assert task.retry_until == START + seconds(100)
    assert (task.max_attempts, task.unique_key, task.priority) == (7, "k", -3)
    assert (task.timeout, task.tags) == (seconds(5), ("a", "b"))
    assert task.metadata == {"trace": {"id": "$x"}}
    assert task.backoff == {"kind": "fixed", "delay_ms": 1000, "jitter": 0.1}
    assert task.payload == {"a.b": 1}
    assert (task.status, task.attempts, task.errors) == (Status.PENDING, 0, ())


async def test_a_delayed_task_is_not_claimed_before_its_time(store: FaultyStore) -> None:
    """B37: and then at once, not at the next poll."""
    started: list[datetime] = []
    manager = a_manager(store, fallback_poll=seconds(30))

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        started.append(store.clock.now())

    async with manager:
        handle = await manager.enqueue("q", "work", None, TaskPolicy(delay=seconds(45)))
        await handle.result(timeout=100)
    assert 0 <= (started[0] - (START + seconds(45))).total_seconds() < 0.1


@pytest.mark.parametrize("run_at", [START + timedelta(days=30), datetime.max.replace(tzinfo=UTC)])
async def test_a_far_future_task_neither_runs_nor_keeps_anybody_busy(
    store: FaultyStore, run_at: datetime
) -> None:
    """B39: no timer overflows, and an idle manager asks as often as its poll says."""
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        handle = await manager.enqueue("q", "work", None, TaskPolicy(run_at=run_at))
        await anyio.sleep(1)
        before = store.calls["claim"]
        await anyio.sleep(100)
        assert store.calls["claim"] - before <= 101
    assert (await store.stored(handle.id)).attempts == 0


@pytest.fixture
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"], indirect=True)
async def test_an_aware_time_is_the_exact_instant_under_any_tz(
    store: FaultyStore, zone: str
) -> None:
    """B38."""
    run_at = datetime(2027, 1, 1, 5, 30, 0, 123456, tzinfo=IST)
    handle = await a_manager(store).enqueue("q", "work", None, TaskPolicy(run_at=run_at))
    task = await store.stored(handle.id)
    assert task.run_at == datetime(2027, 1, 1, 0, 0, 0, 123000, tzinfo=UTC)
    assert task.run_at.tzinfo is UTC
    with pytest.raises(ConfigurationError, match="has no time zone"):
        TaskPolicy(run_at=datetime(2027, 1, 1))  # noqa: DTZ001  - it is what is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"run_at": datetime(2027, 1, 1)}, "run_at must be an aware datetime"),  # noqa: DTZ001
        ({"run_at": date(2027, 1, 1)}, "run_at must be an aware datetime"),
        ({"run_at": "tomorrow"}, "run_at must be an aware datetime"),
        ({"run_at": START, "delay": seconds(1)}, "not both"),
        ({"delay": seconds(-1)}, "delay must be at least"),
        ({"delay": 5}, "delay must be a timedelta"),
        ({"delay": float("inf")}, "delay must be a timedelta"),
        ({"delay": float("nan")}, "delay must be a timedelta"),
        ({"max_attempts": 0}, "max_attempts must be a whole number"),
        ({"max_attempts": -1}, "max_attempts must be a whole number"),
        ({"max_attempts": True}, "max_attempts must be a whole number"),
        ({"max_attempts": 2.0}, "max_attempts must be a whole number"),
        ({"max_attempts": 10**10}, "max_attempts must be at most"),
        ({"unique_key": ""}, "unique key must have 1 to 200"),
        ({"unique_key": 5}, "unique key must be a string"),
        ({"unique_key": "a\0b"}, "unique key must be printable"),
        ({"priority": 2**31}, "priority must be a whole number of 32 bits"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"priority": True}, "priority must be a whole number"),
        ({"timeout": seconds(0)}, "timeout must be at least"),
        ({"timeout": seconds(-5)}, "timeout must be at least"),
        ({"timeout": 5}, "timeout must be a timedelta"),
        ({"backoff": lambda attempt, error: seconds(1)}, "cannot be stored"),
        ({"retry_until": datetime(2027, 1, 1)}, "retry_until must be an aware"),  # noqa: DTZ001
        ({"retry_until": seconds(-1)}, "retry_until must be at least"),
        ({"retry_until": 5}, "retry_until must be an aware"),
        ({"tags": "abc"}, "tags must be a sequence of strings"),
        ({"tags": [""]}, "tag must have 1 to 200"),
        ({"tags": [5]}, "tag must be a string"),
    ],
    ids=spelled,
)
def test_a_bad_policy_is_refused_when_it_is_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        TaskPolicy(**settings)


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (Enqueue("other", "work", None), UnknownQueueError, r"'other' is not declared .*'q'"),
        (Enqueue("q", "", None), ConfigurationError, "type must have 1 to 200"),
        (Enqueue("q", "a\nb", None), ConfigurationError, "type must be printable"),
        (Enqueue("q", "$t", None), ConfigurationError, "start with '\\$'"),
        (Enqueue("q", "send", {"to": 5}), PayloadError, "to"),
        (Enqueue("q", "send", None), PayloadError, "Email"),
        (Enqueue("q", "work", object()), GotasksError, "object"),
        (Enqueue("q", "work", [2**64]), PayloadError, "0.*64 bits"),
        (Enqueue("q", "work", {"a": ["\ud800"]}), PayloadError, "a.0"),
        (Enqueue("q", "work", {"a\0": 1}), PayloadError, "NUL"),
        (Enqueue("q", "work", "x" * 2000), PayloadTooLargeError, "the limit is 1000"),
        (
            Enqueue("q", "work", None, TaskPolicy(delay=timedelta.max)),
            ConfigurationError,
            "beyond the year 9999",
        ),
        (
            Enqueue("q", "work", None, TaskPolicy(retry_until=timedelta.max)),
            ConfigurationError,
            "beyond the year 9999",
        ),
        (
            Enqueue("q", "work", None, TaskPolicy(run_at=datetime.min.replace(tzinfo=IST))),
            ConfigurationError,
            "years 1 to 9999",
        ),
        (
            Enqueue("q", "work", None, TaskPolicy(metadata={"x": object()})),
            PayloadError,
            "x",
        ),
    ],
    ids=spelled,
)
async def test_a_bad_request_is_refused_before_anything_is_written(
    store: FaultyStore, request_: Enqueue, error: type[Exception], message: str
) -> None:
    ears = Ears()
    manager = a_manager(store, payload_limit=1000, hooks=ears.hooks())

    @manager.handler("q", "send")
    async def send(payload: Email) -> None: ...

    with pytest.raises(error, match=message):
        await manager.enqueue(request_.queue, request_.type, request_.payload, request_.policy)
    assert store.all_tasks() == []
    assert ears.events == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers must be a whole number from 1 up"),
        ({"workers": True}, "workers must be a whole number"),
        ({"lease": seconds(0.05)}, "lease must be at least"),
        ({"lease": seconds(0.9), "heartbeat": False}, "lease without heartbeat must be at least"),
        ({"lease": 60}, "lease must be a timedelta"),
        ({"fallback_poll": seconds(0)}, "fallback_poll must be at least"),
        ({"name": ""}, "manager name must have"),
        ({"name": "$m"}, "must not start with"),
        ({"order": "random"}, "order must be 'weighted' or 'strict'"),
        ({"queues": [QueuePolicy("a"), QueuePolicy("a")]}, "'a' is declared twice"),
        ({"queues": ["a"]}, "queues must be QueuePolicy objects"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": seconds(-1)}, "timeout must be at least"),
        ({"backoff": 5}, "backoff must be callable"),
        ({"payload_limit": 0}, "payload_limit"),
        ({"payload_limit": 12 * 2**20}, "together must be at most"),
    ],
    ids=spelled,
)
def test_a_bad_setting_of_the_manager_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Manager(FaultyStore(), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ttl": seconds(-1)}, "ttl must be at least"),
        ({"ttl": 5}, "ttl must be a timedelta"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"weight": 0}, "weight"),
        ({"workers": 0}, "workers"),
        ({"timeout": seconds(0)}, "timeout"),
        ({"backoff": lambda attempt, error: seconds(1)}, "cannot be stored"),
    ],
    ids=spelled,
)
def test_a_bad_queue_policy_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        QueuePolicy("q", **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"reap_interval": seconds(0)},
        {"reap_batch": 0},
        {"rescue_interval": seconds(-1)},
        {"sweep_interval": 5},
    ],
    ids=spelled,
)
def test_a_bad_janitor_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        JanitorConfig(**settings)


GOOD_NAMES = ["a/b", "ü", ".", "..", "__proto__", "a.b", "%2e", "日本語", "x" * 200, "a b", "<b>"]
BAD_NAMES = ["", " ", "a ", "\t", "a\nb", "\x00", "a\x7f", "$q", "x" * 201, "x" * 10_000, 5, None]


@pytest.mark.parametrize("name", GOOD_NAMES)
async def test_a_legal_name_works_everywhere(store: FaultyStore, name: str) -> None:
    """B40: as queue, type, key, tag and manager."""
    manager = a_manager(store, name, name=name)

    @manager.handler(name, name)
    async def work(payload: None) -> str:
        return "ran"

    async with manager:
        handle = await manager.enqueue(name, name, None, TaskPolicy(unique_key=name, tags=[name]))
        assert await handle.result(timeout=5) == "ran"


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name)[:12])
def test_an_illegal_name_is_refused_at_declaration(name: Any) -> None:
    """B40."""
    makers: list[Callable[[], object]] = [
        lambda: QueuePolicy(name),
        lambda: TaskType("q", name, int),
        lambda: TaskType(name, "t", int),
        lambda: TaskPolicy(tags=[name]),
        lambda: Manager(FaultyStore(), name=name),
    ]
    for make in makers:
        with pytest.raises(ValueError, match="must"):
            make()


async def test_a_manager_without_handlers_does_not_start(store: FaultyStore) -> None:
    with pytest.raises(HandlerError, match="no handler is registered"):
        await a_manager(store).start()


async def test_a_queue_declared_otherwise_is_a_conflict_naming_both(store: FaultyStore) -> None:
    await a_manager(store, QueuePolicy("q", max_attempts=3)).enqueue("q", "work")
    other = a_manager(store, QueuePolicy("q", max_attempts=5, backoff=Linear()))
    with pytest.raises(QueueConflictError, match="registered 3, declared 5") as raised:
        await other.enqueue("q", "work")
    assert set(raised.value.differences) == {"max_attempts", "backoff"}
    await store.set_queue_policy(QueuePolicy("q", max_attempts=5, backoff=Linear()))
    await other.enqueue("q", "work")


async def test_a_unique_key_is_held_until_its_task_is_final(store: FaultyStore) -> None:
    manager = a_manager(store, "q", "other")
    gate = anyio.Event()

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        await gate.wait()

    policy = TaskPolicy(unique_key="k")
    async with manager:
        first = await manager.enqueue("q", "work", None, policy)
        with pytest.raises(DuplicateTaskError) as raised:
            await manager.enqueue("q", "another type", None, policy)
        assert raised.value.existing_id == first.id
        same = await manager.enqueue("q", "work", None, policy, on_conflict="return")
        assert same.id == first.id
        assert (await manager.enqueue("other", "work", None, policy)).id != first.id
        gate.set()
        await same.result(timeout=5)
        assert (await manager.enqueue("q", "work", None, policy)).id != first.id


async def test_tasks_without_a_key_never_conflict(store: FaultyStore) -> None:
    """B43."""
    manager = a_manager(store)
    assert (await manager.enqueue("q", "work")).id != (await manager.enqueue("q", "work")).id


async def test_of_many_enqueues_with_one_key_one_wins(store: FaultyStore) -> None:
    """B42: and all others name it."""
    managers = [a_manager(store) for _ in range(2)]
    won: list[Any] = []
    named: list[Any] = []

    async def enqueue(manager: Manager) -> None:
        try:
            won.append((await manager.enqueue("q", "w", None, TaskPolicy(unique_key="k"))).id)
        except DuplicateTaskError as error:
            named.append(error.existing_id)

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(enqueue, managers[number % 2])
    assert len(won) == 1
    assert named == won * 49


async def test_on_conflict_is_checked(store: FaultyStore) -> None:
    with pytest.raises(ConfigurationError, match="'raise' or 'return'"):
        await a_manager(store).enqueue("q", "w", on_conflict="replace")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def test_an_enqueue_of_unknown_outcome_names_its_task(store: FaultyStore) -> None:
    def lose(document: dict[str, Any]) -> None:
        raise StoreUnavailableError("no answer", task_id=document["_id"])

    store.after["insert"] = lose
    with pytest.raises(StoreUnavailableError) as raised:
        await a_manager(store).enqueue("q", "work")
    assert [task.id for task in store.all_tasks()] == [raised.value.task_id]


async def test_many_are_enqueued_in_order(store: FaultyStore) -> None:
    manager = a_manager(store)
    count = CHUNK * 2 + 5
    handles = await manager.enqueue_many(Enqueue("q", "w", number) for number in range(count))
    assert len({handle.id for handle in handles}) == count
    payloads = [(await store.stored(handle.id)).payload for handle in handles[:: CHUNK - 1]]
    assert payloads == [{"value": number} for number in range(0, count, CHUNK - 1)]
    assert await manager.enqueue_many([]) == []


async def test_what_of_many_cannot_be_stored_is_told_by_index(store: FaultyStore) -> None:
    manager = a_manager(store, hooks=(ears := Ears()).hooks())
    requests = [Enqueue("q", "w", number) for number in range(CHUNK + 10)]
    key = TaskPolicy(unique_key="k")
    requests[3] = Enqueue("nowhere", "w", 3)
    requests[4] = Enqueue("q", "w", 4, key)
    requests[CHUNK + 1] = Enqueue("q", "w", object())
    requests[CHUNK + 2] = Enqueue("q", "w", 5, key)
    with pytest.raises(PartialEnqueueError, match=r"3 of 1010 tasks .*\[3\] queue") as raised:
        await manager.enqueue_many(requests)
    ids, failures = raised.value.ids, raised.value.failures
    assert len(ids) == len(requests)
    assert [index for index, each in enumerate(ids) if each is None] == sorted(failures)
    assert {index: type(error) for index, error in failures.items()} | {CHUNK + 1: None} == {
        3: UnknownQueueError,
        CHUNK + 1: None,
        CHUNK + 2: DuplicateTaskError,
    }
    conflict = failures[CHUNK + 2]
    assert isinstance(conflict, DuplicateTaskError)
    assert conflict.existing_id == ids[4]
    assert (await store.stored(ids[CHUNK + 3])).payload == {"value": CHUNK + 3}
    assert len(ears.events) == len(requests) - 3


async def test_a_store_that_is_away_refuses_before_anything_is_written(
    store: FaultyStore,
) -> None:
    store.before["open"] = failing(StoreUnavailableError("away"))
    manager = a_manager(store)

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    for operation in (manager.enqueue("q", "work"), manager.start()):
        with pytest.raises(StoreUnavailableError):
            await operation
    assert store.all_tasks() == []


async def test_the_defaults_are_three_attempts_and_an_exponential_backoff(
    store: FaultyStore,
) -> None:
    manager = Manager(store, queues=[QueuePolicy("q")])

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        raise ValueError

    async with manager:
        task = await settled(store, (await manager.enqueue("q", "work")).id)
    assert task.attempts == 3
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(task.errors)]
    assert 9 <= gaps[0] <= 10.1
    assert 18 <= gaps[1] <= 20.1
    assert Exponential().cap == timedelta(hours=1)
