"""Memory and MongoDB make the same of everything: expressions, patches, whole lives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gotasks_memstore import MemStore
from gotasks_py import lifecycle
from gotasks_py.errors import DuplicateTaskError
from gotasks_py.expressions import (
    NOW,
    REMOVED,
    Added,
    Appended,
    AtLeast,
    Condition,
    Equals,
    Expression,
    Field,
    Has,
    If,
    Later,
    Now,
    Number,
    Overflow,
    Record,
    Sum,
    Text,
    Value,
)
from gotasks_py.lifecycle import Failure, Patch
from gotasks_py.store import Renewal, TaskDocument
from gotasks_py.task import LeaseRef, Status, Task
from tests.lab import START, Lab, ManualClock, MemHand, a_claim, token_of, without_times

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

FAILURE = Failure(3, "$worker", "$$NOW", "no.such", None)
LEASE = timedelta(minutes=10)
# No multiple of a step is a multiple of a lease: nothing falls due while it is looked at.
STEP = timedelta(minutes=6, seconds=10)

numbers: st.SearchStrategy[object] = st.sampled_from(
    [0, 1, 2, 3, 20, -1, 2**31, 1.5, True, None, "1", [], {"a": 1}]
)
texts = st.sampled_from(["", "w", "$lease.token", "$$NOW", "a.b", "pending", "running"])
times = st.sampled_from([START, START - LEASE, datetime(9999, 12, 31, tzinfo=UTC)])
values: st.SearchStrategy[object] = (
    st.sampled_from([None, True, 0, 2**62, 0.5, {}, [], {"$x": 1}, {"a.b": {"": []}}, b"x"])
    | texts
    | times
)
anything = values | st.lists(values, max_size=3) | st.dictionaries(texts, values, max_size=3)
entries = st.lists(st.just({"message": "old"}) | values, max_size=22)

_ids = count(1)


def documents() -> st.SearchStrategy[TaskDocument]:
    """Make documents as they are, and as a hand can spoil them."""
    # A lease that is a list is left out: the server reads through the lists on a path.
    lease = st.fixed_dictionaries({}, optional={"token": texts, "owner": values, "until": values})
    return st.fixed_dictionaries(
        {"queue": st.just("q"), "lane": st.just(0), "type": st.just("t")},
        optional={
            "status": texts | st.sampled_from([status.value for status in Status]),
            "attempts": numbers,
            "max_attempts": numbers,
            "interruptions": numbers,
            "errors": entries | values,
            "errors_dropped": numbers,
            "lease": lease,
            "due_at": values,
            "reap_at": values,
            "released_key": values,
            "cancel_requested_at": values,
            "expires_at": st.sampled_from([None, "x", 5, {"a": 1}]),
            "ttl_ms": numbers,
            "result": anything,
            "progress": anything,
            "finished_at": values,
            "retry_until": values,
            "settle_token": values,
            "surprise": anything,
        },
    )


patches = st.one_of(
    st.builds(
        lifecycle.claimed,
        token=texts,
        owner=texts,
        lease=st.timedeltas(timedelta(0), timedelta(days=9)),
    ),
    st.builds(
        lifecycle.claimed_in_batch,
        token=texts,
        owner=texts,
        lease=st.timedeltas(timedelta(0), timedelta(days=9)),
    ),
    st.builds(
        lifecycle.claimed_as_known,
        token=texts,
        owner=texts,
        lease=st.timedeltas(timedelta(0), timedelta(days=9)),
        attempts=st.integers(0, 3),
        max_attempts=st.integers(1, 4),
    ),
    st.builds(lifecycle.started, owner=texts, lease=st.timedeltas(timedelta(0), timedelta(days=9))),
    st.builds(lifecycle.unreserved),
    st.builds(lifecycle.completed_each),
    st.builds(lifecycle.progressed, anything),
    st.builds(lifecycle.completed, anything),
    st.builds(lifecycle.retried, st.just(FAILURE), st.timedeltas(LEASE, 9 * LEASE)),
    st.builds(lifecycle.died, st.just(FAILURE)),
    st.builds(lifecycle.snoozed, st.timedeltas(LEASE, 9 * LEASE)),
    st.builds(lifecycle.released),
    st.builds(lifecycle.cancelled),
    st.builds(lifecycle.withdrawn),
    st.builds(lifecycle.cancel_requested),
    st.builds(lifecycle.reaped),
    st.builds(lifecycle.requeued, fresh_lifetime=st.booleans()),
)

paths = st.sampled_from(
    ["attempts", "max_attempts", "errors", "lease.owner", "lease.until", "status", "absent", "a.b"]
)
counters = st.builds(Number, paths) | st.builds(Sum, st.builds(Number, paths), st.integers(-9, 9))
conditions: st.SearchStrategy[Condition] = (
    st.builds(Has, paths)
    | st.builds(Equals, paths, texts)
    | st.builds(AtLeast, counters, st.builds(Number, paths))
)
pieces = st.lists(texts | st.builds(Field, paths), min_size=1, max_size=4).map(tuple)
plain: st.SearchStrategy[Expression] = (
    st.builds(Value, anything)
    | counters
    | st.builds(Now, st.timedeltas(-9 * LEASE, 9 * LEASE))
    | st.builds(Text, pieces)
    | st.builds(Overflow, paths, st.integers(1, 22))
    | st.builds(Added, st.builds(Number, paths), st.builds(Overflow, paths, st.integers(1, 22)))
)
names = st.sampled_from(["a", "b", "c"])
expressions: st.SearchStrategy[Expression] = st.recursive(
    plain | st.just(REMOVED) | st.builds(Field, paths) | st.builds(Later, st.just("ttl_ms")),
    lambda inner: (
        st.builds(If, conditions, inner, inner)
        | st.builds(Record, st.dictionaries(names, inner, max_size=3))
        | st.builds(
            Appended,
            paths,
            plain | st.builds(Record, st.dictionaries(names, inner, max_size=3)),
            st.integers(1, 22),
        )
    ),
    max_leaves=6,
)

thorough = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass
class Pair:
    """The two stores side by side."""

    mongo: Lab
    memory: Lab
    clock: ManualClock
    tasks: list[str] = field(default_factory=list[str])
    claims: list[LeaseRef] = field(default_factory=list[LeaseRef])

    def write(self, document: TaskDocument) -> None:
        self.mongo.hand.write(document)
        self.memory.hand.write(document)

    async def assert_alike_after(self, document: TaskDocument, patch: Patch) -> None:
        """Apply a patch in both, in memory at the very moment that the server saw."""
        document = {**document, "_id": f"{next(_ids):024x}"}
        anyhow = replace(patch, source=None, cancel_requested=None)
        self.write(document)
        await self.mongo.store.transition(document["_id"], anyhow)
        expected = self.mongo.raw(document["_id"])
        moment = expected["updated_at"]
        assert isinstance(moment, datetime)
        self.clock.advance(moment - self.clock.now())
        await self.memory.store.transition(document["_id"], anyhow)
        applied = self.memory.raw(document["_id"])
        for lab in (self.mongo, self.memory):
            await lab.store.delete(document["_id"])
        assert applied == expected


@pytest.fixture
def pair(mongo_lab: Lab) -> Pair:
    clock = ManualClock()
    memory = MemStore(clock=clock)
    return Pair(mongo_lab, Lab(memory, MemHand(memory, clock), "memstore"), clock)


@thorough
@given(document=documents(), patch=patches)
async def test_a_patch_makes_the_same_document(
    pair: Pair, document: TaskDocument, patch: Patch
) -> None:
    timed = replace(patch, changes={**patch.changes, "updated_at": NOW})
    await pair.assert_alike_after(document, timed)


@thorough
@given(document=documents(), expression=expressions)
async def test_an_expression_has_the_same_value(
    pair: Pair, document: TaskDocument, expression: Expression
) -> None:
    patch = Patch(Status.DONE, {"outcome": expression, "updated_at": NOW})
    await pair.assert_alike_after(document, patch)


OUTCOMES = ("completed", "retried", "died", "snoozed", "released", "cancelled")
WAYS = (*OUTCOMES, "progressed")
index = st.integers(0, 9)
operations = st.one_of(
    st.tuples(
        st.just("insert"),
        st.integers(1, 3),
        st.sampled_from([0, 0, 5]),
        st.sampled_from([None, "k", "l"]),
    ),
    st.tuples(st.just("claim")),
    st.tuples(st.just("claim many"), st.integers(1, 4)),
    st.tuples(st.just("settle"), index, st.sampled_from(WAYS)),
    st.tuples(st.sampled_from(["start", "unreserve"]), index),
    st.tuples(st.just("settle many"), index, st.sampled_from(OUTCOMES)),
    st.tuples(st.just("complete each"), index, anything),
    st.tuples(st.just("renew"), index),
    st.tuples(st.sampled_from(["ask", "withdraw", "requeue", "delete"]), index),
    st.tuples(st.just("reap")),
    st.tuples(st.just("wait")),
)


PATCHES = {
    "completed": lifecycle.completed({"$x": "$$NOW"}),
    "retried": lifecycle.retried(FAILURE, LEASE),
    "died": lifecycle.died(FAILURE),
    "snoozed": lifecycle.snoozed(LEASE),
    "released": lifecycle.released(),
    "cancelled": lifecycle.cancelled(),
    "progressed": lifecycle.progressed({"n": 1}),
    "start": lifecycle.started(owner="$other", lease=LEASE),
    "unreserve": lifecycle.unreserved(),
    "ask": lifecycle.cancel_requested(),
    "withdraw": lifecycle.withdrawn(),
    "requeue": lifecycle.requeued(fresh_lifetime=True),
}


def known(task: Task | None) -> object:
    return None if task is None else (str(task.id), task.status, task.attempts, len(task.errors))


def latest(pair: Pair, number: int) -> list[LeaseRef]:
    """Name up to three claims, each task once: an id has one place in a table of results."""
    refs = {str(ref.id): ref for ref in pair.claims[-1 - number % 5 :][:3]}
    return list(refs.values())


async def insert(pair: Pair, lab: Lab, operation: tuple[Any, ...]) -> object:
    _, max_attempts, priority, key = operation
    document = lab.a_task(max_attempts=max_attempts, priority=priority, _id=pair.tasks[-1])
    if key is not None:
        document["unique_key"] = key
    try:
        await lab.store.insert(document)
    except DuplicateTaskError as error:
        return str(error.existing_id)
    return "inserted"


async def perform(pair: Pair, lab: Lab, operation: tuple[Any, ...], token: str) -> object:  # noqa: PLR0912  - one case per operation
    """Do one thing in one store; what is told back must be the same in both."""
    match operation:
        case ("insert", *_):
            return await insert(pair, lab, operation)
        case ("claim",):
            task = await lab.store.claim(a_claim(token=token, lease=LEASE))
            found = await lab.store.find_claimed(a_claim(token=token, lease=LEASE))
            assert [known(each) for each in found] == ([] if task is None else [known(task)])
            return known(task)
        case ("settle", number, way) if pair.claims:
            ref = pair.claims[number % len(pair.claims)]
            outcome = await lab.store.settle(ref, PATCHES[way])
            return outcome, await lab.store.is_held(ref)
        case ("claim many", limit):
            request = a_claim(token=token, lease=LEASE)
            tasks = await lab.store.claim_many(request, limit)
            found = await lab.store.find_claimed(request)
            assert sorted(map(str, map(known, found))) == sorted(map(str, map(known, tasks)))
            return [(known(task), token_of(task)) for task in tasks]
        case (("start" | "unreserve") as way, number) if pair.claims:
            ref = pair.claims[-1 - number % len(pair.claims)]
            return await lab.store.settle(ref, PATCHES[way]), await lab.store.is_held(ref)
        case ("settle many", number, way) if pair.claims:
            return await lab.store.settle_many(latest(pair, number), PATCHES[way])
        case ("complete each", number, value) if pair.claims:
            refs = latest(pair, number)
            values = [[value, None, {"$x": [value]}][index % 3] for index in range(len(refs))]
            return await lab.store.settle_many(refs, lifecycle.completed_each(), values)
        case ("renew", number) if pair.claims:
            held = pair.claims[-1 - number % 3 :]
            return await lab.store.renew([Renewal(ref, LEASE) for ref in held])
        case ("reap",):
            return [known(task) for task in await lab.store.reap(2)]
        case ("delete", number) if pair.tasks:
            return await lab.store.delete(pair.tasks[number % len(pair.tasks)])
        case (("ask" | "withdraw" | "requeue") as way, number) if pair.tasks:
            task_id = pair.tasks[number % len(pair.tasks)]
            try:
                return known(await lab.store.transition(task_id, PATCHES[way]))
            except DuplicateTaskError as error:
                return str(error.existing_id), error.unique_key
        case ("wait",):
            lab.pass_time(STEP)
        case _:
            pass  # nothing has been claimed or inserted that it could be done to
    return None


@settings(thorough, max_examples=40)
@given(life=st.lists(operations, min_size=5, max_size=30))
async def test_a_whole_life_is_the_same(pair: Pair, life: list[tuple[Any, ...]]) -> None:
    pair.tasks, pair.claims = [], []
    try:
        await live(pair, life)
    finally:
        for task_id in pair.tasks:
            await pair.mongo.store.delete(task_id)
            await pair.memory.store.delete(task_id)


async def live(pair: Pair, life: list[tuple[Any, ...]]) -> None:
    for operation in life:
        if operation[0] == "insert":
            pair.tasks.append(f"{next(_ids):024x}")
        token = f"token {next(_ids)}"
        told = await perform(pair, pair.mongo, operation, token)
        assert await perform(pair, pair.memory, operation, token) == told
        if operation[0] == "claim" and isinstance(told, tuple):
            pair.claims.append(LeaseRef(told[0], "q", 0, token))
        if operation[0] == "claim many" and isinstance(told, list):
            pair.claims.extend(LeaseRef(task[0], "q", 0, own) for task, own in told)
        for task_id in pair.tasks:
            stored = pair.mongo.hand.read(task_id)
            remembered = pair.memory.hand.read(task_id)
            assert (stored is None) == (remembered is None)
            if stored is not None and remembered is not None:
                assert without_times(remembered) == without_times(stored)
        # Due times of one moment are told apart by nothing but the id.
        await anyio.sleep(0.002)
        pair.clock.advance(timedelta(milliseconds=1))
