"""Random lives of tasks in memory, against a small model of what is promised."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gotasks_memstore import MemStore
from gotasks_py import lifecycle
from gotasks_py.errors import DuplicateTaskError
from gotasks_py.lifecycle import ALLOWED, MAX_ERRORS, Failure, Patch
from gotasks_py.store import Renewal, TaskDocument
from gotasks_py.task import LeaseRef, Status
from tests.lab import Lab, ManualClock, MemHand, a_claim

T = TypeVar("T")

LEASE = timedelta(seconds=60)
SPANS = st.sampled_from([timedelta(0), timedelta(seconds=30), 2 * LEASE])
ENDS = {
    "completed": Status.DONE,
    "retried": Status.PENDING,
    "died": Status.DEAD,
    "snoozed": Status.PENDING,
    "released": Status.PENDING,
    "cancelled": Status.CANCELLED,
}


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never waits: memory is always there."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("the store in memory waited for something")


@dataclass
class Model:
    """What is to be expected of one task."""

    max_attempts: int
    priority: int
    due_at: datetime
    key: str | None
    status: Status = Status.PENDING
    attempts: int = 0
    claims: int = 0
    failures: int = 0
    interruptions: int = 0
    is_asked: bool = False
    holder: LeaseRef | None = None
    until: datetime | None = None
    losers: list[LeaseRef] = field(default_factory=list[LeaseRef])

    @property
    def is_claimable_ever(self) -> bool:
        if self.status is Status.PENDING:
            return True
        return self.status is Status.RUNNING and not self.is_asked and not self.is_last

    @property
    def is_last(self) -> bool:
        return self.attempts >= self.max_attempts

    def moment(self) -> datetime:
        return self.until if self.until is not None else self.due_at


class Lives(RuleBasedStateMachine):
    """Enqueue, claim, settle, lose leases, reap, cancel, requeue, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = MemStore(clock=self.clock)
        self.hand = MemHand(self.store, self.clock)
        self.lab = Lab(self.store, self.hand, "memstore")
        self.models: dict[str, Model] = {}
        self.seen: dict[str, TaskDocument] = {}
        self.tokens = (f"token {number}" for number in count())

    def pick(self, number: int) -> tuple[str, Model]:
        items = list(self.models.items())
        return items[number % len(items)]

    def finish(self, model: Model, status: Status) -> None:
        model.status = status
        if model.holder is not None:
            model.losers.append(model.holder)
        model.holder = model.until = None

    # Few tasks, so that much happens to each.
    @precondition(lambda self: len(self.models) < 3)
    @rule(
        max_attempts=st.integers(1, 3),
        priority=st.integers(-1, 1),
        delay=SPANS,
        key=st.sampled_from([None, None, "k", "l"]),
    )
    def enqueue(self, max_attempts: int, priority: int, delay: timedelta, key: str | None) -> None:
        due_at = self.clock.now() + delay
        document = self.lab.a_task(
            max_attempts=max_attempts, priority=priority, run_at=due_at, due_at=due_at
        )
        holders = [each for each, model in self.models.items() if self.holds(model, key)]
        if key is not None:
            document["unique_key"] = key
        try:
            at_once(self.store.insert(document))
        except DuplicateTaskError as error:
            refused_for = [error.existing_id]
        else:
            refused_for = []
        assert refused_for == holders
        if holders:
            return
        self.models[str(document["_id"])] = Model(max_attempts, priority, due_at, key)

    @staticmethod
    def holds(model: Model, key: str | None) -> bool:
        return key is not None and model.key == key and not model.status.is_final

    @rule()
    def claim(self) -> None:
        request = a_claim(token=next(self.tokens), lease=LEASE)
        now = self.clock.now()
        due = [
            (-model.priority, model.moment(), task_id)
            for task_id, model in self.models.items()
            if model.is_claimable_ever and model.moment() <= now
        ]
        task = at_once(self.store.claim(request))
        if task is None:
            assert not due
            return
        assert str(task.id) == min(due)[2]
        model = self.models[str(task.id)]
        if model.holder is not None:
            model.losers.append(model.holder)
            model.failures += 1
        model.status = Status.RUNNING
        model.attempts += 1
        model.claims += 1
        model.holder = LeaseRef(task.id, "q", 0, request.token)
        model.until = now + LEASE

    @precondition(lambda self: self.models)
    @rule(number=st.integers(0, 2), way=st.sampled_from(sorted(ENDS)), delay=SPANS)
    def settle(self, number: int, way: str, delay: timedelta) -> None:
        _, model = self.pick(number)
        if model.holder is None:
            return
        if way == "retried" and model.is_last:
            way = "died"  # which is what the engine makes of it
        patch = self.patch(way, model.holder.token, model.attempts, delay)
        settled = at_once(self.store.settle(model.holder, patch))
        assert settled is (model.is_asked == (way == "cancelled"))
        if not settled:
            return
        self.finish(model, ENDS[way])
        model.failures += way in {"retried", "died"}
        model.attempts -= way in {"snoozed", "released"}
        model.claims -= way in {"snoozed", "released"}
        model.interruptions += way == "released"
        model.due_at = self.clock.now() + (timedelta(0) if way == "released" else delay)

    @staticmethod
    def patch(way: str, token: str, attempt: int, delay: timedelta) -> Patch:
        failure = Failure(attempt, "worker", "E", "no")
        match way:
            case "completed":
                return lifecycle.completed({"n": 1})
            case "retried":
                return lifecycle.retried(failure, delay)
            case "died":
                return lifecycle.died(failure)
            case "snoozed":
                return lifecycle.snoozed(delay)
            case "released":
                return lifecycle.released()
            case _:
                return lifecycle.cancelled()

    @precondition(lambda self: self.models)
    @rule(number=st.integers(0, 2), which=st.integers(0, 9), way=st.sampled_from(sorted(ENDS)))
    def settle_as_a_loser(self, number: int, which: int, way: str) -> None:
        task_id, model = self.pick(number)
        if not model.losers:
            return
        ref = model.losers[which % len(model.losers)]
        before = self.hand.read(task_id)

        at_once(self.store.settle(ref, self.patch(way, ref.token, 1, LEASE)))
        at_once(self.store.settle(ref, lifecycle.progressed("a loser's")))
        at_once(self.store.settle(ref, lifecycle.extended(LEASE)))
        assert at_once(self.store.renew([Renewal(ref, LEASE)])).lost == {ref.token}
        assert not at_once(self.store.is_held(ref))

        assert self.hand.read(task_id) == before

    @precondition(lambda self: self.models)
    @rule(number=st.integers(0, 2))
    def renew(self, number: int) -> None:
        _, model = self.pick(number)
        if model.holder is None:
            return
        renewed = at_once(self.store.renew([Renewal(model.holder, LEASE)]))
        assert not renewed.lost
        assert bool(renewed.cancelled) == model.is_asked
        model.until = self.clock.now() + LEASE

    @precondition(lambda self: self.models)
    @rule(number=st.integers(0, 2))
    def cancel(self, number: int) -> None:
        task_id, model = self.pick(number)
        withdrawn = at_once(self.store.transition(task_id, lifecycle.withdrawn()))
        assert (withdrawn is not None) == (model.status is Status.PENDING)
        if withdrawn is not None:
            self.finish(model, Status.CANCELLED)
            return
        asked = at_once(self.store.transition(task_id, lifecycle.cancel_requested()))
        assert (asked is not None) == (model.status is Status.RUNNING and not model.is_asked)
        model.is_asked = model.is_asked or asked is not None

    @precondition(lambda self: self.models)
    @rule(number=st.integers(0, 2))
    def requeue(self, number: int) -> None:
        task_id, model = self.pick(number)
        is_taken = any(self.holds(other, model.key) for other in self.models.values())
        try:
            requeued = at_once(
                self.store.transition(task_id, lifecycle.requeued(fresh_lifetime=False))
            )
        except DuplicateTaskError:
            assert is_taken
            return
        assert (requeued is not None) == (model.status is Status.DEAD)
        if requeued is not None:
            assert not is_taken
            model.status, model.attempts, model.claims = Status.PENDING, 0, 0
            model.due_at = self.clock.now()

    @rule(limit=st.integers(1, 3))
    def reap(self, limit: int) -> None:
        now = self.clock.now()
        lapsed = [
            task_id
            for task_id, model in self.models.items()
            if model.until is not None and model.until <= now and not model.is_claimable_ever
        ]
        reaped = at_once(self.store.reap(limit))
        assert len(reaped) == min(limit, len(lapsed))
        for task in reaped:
            assert str(task.id) in lapsed
            model = self.models[str(task.id)]
            model.failures += not model.is_asked
            self.finish(model, Status.CANCELLED if model.is_asked else Status.DEAD)

    @precondition(lambda self: self.models)
    @rule(number=st.integers(0, 2))
    def delete(self, number: int) -> None:
        task_id, _ = self.pick(number)
        assert at_once(self.store.delete(task_id))
        del self.models[task_id]
        self.seen.pop(task_id, None)

    @rule(span=SPANS)
    def wait(self, span: timedelta) -> None:
        self.clock.advance(span)

    @invariant()
    def every_task_is_as_the_model_says(self) -> None:
        for task_id, model in self.models.items():
            task = at_once(self.store.get(task_id))
            assert task is not None
            assert (task.status, task.attempts) == (model.status, model.attempts)
            assert task.interruptions == model.interruptions
            assert len(task.errors) + task.errors_dropped == model.failures
            assert len(task.errors) <= MAX_ERRORS
            assert (task.finished_at is not None) == model.status.is_final
            assert task.unique_key == model.key
            held = None if task.lease is None else task.lease.token
            assert held == (None if model.holder is None else model.holder.token)

    @invariant()
    def attempts_never_exceed_what_is_allowed(self) -> None:
        for model in self.models.values():
            assert 0 <= model.attempts == model.claims <= model.max_attempts

    @invariant()
    def due_at_is_there_exactly_while_a_claim_may_take_the_task(self) -> None:
        for task_id, model in self.models.items():
            document = self.lab.raw(task_id)
            assert ("due_at" in document) == model.is_claimable_ever
            is_left_to_the_janitor = model.status is Status.RUNNING and not model.is_claimable_ever
            assert ("reap_at" in document) == is_left_to_the_janitor
            if model.is_claimable_ever:
                assert document["due_at"] == model.moment()

    @invariant()
    def status_moves_only_as_allowed(self) -> None:
        for task_id in self.models:
            document = self.lab.raw(task_id)
            before = self.seen.get(task_id, document)
            old, new = Status(str(before["status"])), Status(str(document["status"]))
            assert old is new or new in ALLOWED[old]
            self.seen[task_id] = document

    @invariant()
    def a_key_has_one_active_task(self) -> None:
        active = [
            model.key
            for model in self.models.values()
            if model.key is not None and not model.status.is_final
        ]
        assert len(active) == len(set(active))


Lives.TestCase.settings = settings(max_examples=100, stateful_step_count=60)
TestLives = Lives.TestCase
