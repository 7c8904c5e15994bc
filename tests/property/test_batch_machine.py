"""Processes that claim batches, crash, come late and settle, in any order, audited by a ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gotasks_memstore import MemStore
from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import LeaseRef, Status, Task, TaskId
from tests.lab import Lab, ManualClock, MemHand, a_claim, ref_of
from tests.property.test_lifecycle_machine import at_once

LEASE = timedelta(seconds=60)
PROCESSES = 3
processes = st.integers(0, PROCESSES - 1)
numbers = st.integers(0, 4)


@dataclass
class Process:
    """What one process believes to hold. It may be wrong: others may have taken it over."""

    buffer: list[Task] = field(default_factory=list[Task])
    running: list[LeaseRef] = field(default_factory=list[LeaseRef])


class Batches(RuleBasedStateMachine):
    """The ledger knows what ran, and who was the last to claim each task."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = MemStore(clock=self.clock)
        self.lab = Lab(self.store, MemHand(self.store, self.clock), "memstore")
        self.processes = [Process() for _ in range(PROCESSES)]
        self.tokens = (f"claim {number}" for number in count())
        self.max_attempts: dict[TaskId, int] = {}
        self.holders: dict[TaskId, str] = {}
        self.runs = Counter[TaskId]()
        self.results: dict[TaskId, object] = {}

    @rule(attempts=st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4))
    def enqueue(self, attempts: list[int]) -> None:
        documents = [self.lab.a_task(max_attempts=each) for each in attempts]
        assert not at_once(self.store.insert_many(documents))
        for document, each in zip(documents, attempts, strict=True):
            self.max_attempts[document["_id"]] = each

    @rule(process=processes, limit=st.integers(1, 6))
    def claim_many(self, process: int, limit: int) -> None:
        self.fetch(self.processes[process], limit)

    def fetch(self, process: Process, limit: int) -> Sequence[Task]:
        request = a_claim(token=next(self.tokens), lease=LEASE)
        tasks = at_once(self.store.claim_many(request, limit))
        assert len(tasks) <= limit
        process.buffer.extend(tasks)
        for task in tasks:
            self.holders[task.id] = ref_of(task).token
            is_last = task.attempts + (task.status is Status.PENDING) >= task.max_attempts
            assert is_last == (task.status is Status.PENDING)
        return tasks

    @rule(process=processes)
    def claim_one(self, process: int) -> None:
        task = at_once(self.store.claim(a_claim(token=next(self.tokens), lease=LEASE)))
        if task is None:
            return
        self.holders[task.id] = ref_of(task).token
        self.run_one(self.processes[process], task)

    @precondition(lambda self: any(each.buffer for each in self.processes))
    @rule(process=processes, number=numbers)
    def start(self, process: int, number: int) -> None:
        """Begin what was buffered, however late; only a reservation is asked for."""
        here = self.processes[process]
        for task in here.buffer[:number]:
            here.buffer.remove(task)
            if task.status is Status.PENDING and not self.begun(task):
                continue
            self.run_one(here, task)

    def begun(self, task: Task) -> bool:
        begun = at_once(
            self.store.settle(ref_of(task), lifecycle.started(owner="worker", lease=LEASE))
        )
        assert begun == self.is_holder(ref_of(task))
        return begun

    def run_one(self, process: Process, task: Task) -> None:
        self.runs[task.id] += 1
        process.running.append(ref_of(task))

    @rule(process=processes, number=numbers, is_result=st.booleans())
    def settle_many(self, process: int, number: int, is_result: bool) -> None:
        self.settle(self.processes[process], number, is_result=is_result)

    def settle(self, process: Process, number: int, *, is_result: bool) -> None:
        refs, process.running = process.running[:number], process.running[number:]
        values = [{"by": ref.token} for ref in refs]
        patch = lifecycle.completed_each() if is_result else lifecycle.released()
        before = {ref.id: self.lab.raw(ref.id) for ref in refs}

        refused = at_once(self.store.settle_many(refs, patch, values if is_result else ()))

        assert refused == {ref.token for ref in refs if not self.is_holder(ref)}
        for ref, value in zip(refs, values, strict=True):
            if ref.token in refused:
                assert is_result is False or self.lab.raw(ref.id).get("result") != value
                others = [each for each in refs if each.id == ref.id and self.is_holder(each)]
                assert others or self.lab.raw(ref.id) == before[ref.id]
        for ref, value in zip(refs, values, strict=True):
            if ref.token in refused:
                continue
            del self.holders[ref.id]
            if is_result:
                assert ref.id not in self.results
                self.results[ref.id] = value
            else:
                self.runs[ref.id] -= 1  # the store was told that it has not run

    def is_holder(self, ref: LeaseRef) -> bool:
        return self.holders.get(ref.id) == ref.token

    @rule(process=processes, number=numbers)
    def fail(self, process: int, number: int) -> None:
        here = self.processes[process]
        refs, here.running = here.running[:number], here.running[number:]
        for ref in refs:
            task = at_once(self.store.get(ref.id))
            assert task is not None
            failure = Failure(task.attempts, "worker", "E", "no")
            patch = (
                lifecycle.died(failure)
                if task.is_last_attempt
                else lifecycle.retried(failure, timedelta(0))
            )
            assert at_once(self.store.settle(ref, patch)) == self.is_holder(ref)
            if self.is_holder(ref):
                del self.holders[ref.id]

    @rule(process=processes)
    def give_back(self, process: int) -> None:
        """Hand back what was never started, as at a shutdown."""
        here = self.processes[process]
        tasks, here.buffer = here.buffer, []
        begun = [ref_of(task) for task in tasks if task.status is Status.RUNNING]
        refused = at_once(self.store.settle_many(begun, lifecycle.released()))
        assert refused == {ref.token for ref in begun if not self.is_holder(ref)}
        for task in tasks:
            ref = ref_of(task)
            if task.status is Status.PENDING:
                given = at_once(self.store.settle(ref, lifecycle.unreserved()))
                assert given == self.is_holder(ref)
            if self.is_holder(ref):
                del self.holders[ref.id]

    @rule(process=processes)
    def crash(self, process: int) -> None:
        self.processes[process] = Process()

    @rule(span=st.sampled_from([LEASE / 2, 2 * LEASE]))
    def wait(self, span: timedelta) -> None:
        self.clock.advance(span)

    @rule()
    def reap(self) -> None:
        for task in at_once(self.store.reap(100)):
            self.holders.pop(task.id, None)

    @invariant()
    def nothing_runs_more_often_than_it_may(self) -> None:
        for task_id, most in self.max_attempts.items():
            # Two of one task may run where a process came late, but only one of a last attempt.
            assert most > 1 or self.runs[task_id] <= 1

    @invariant()
    def only_the_holder_has_recorded_an_outcome(self) -> None:
        for task_id in self.max_attempts:
            task = at_once(self.store.get(task_id))
            assert task is not None
            assert task.result == self.results.get(task_id)
            assert (task.status is Status.DONE) == (task_id in self.results)
            assert 0 <= task.attempts <= task.max_attempts

    def teardown(self) -> None:
        """Let everything that was left behind lapse; then each task comes to its end."""
        self.clock.advance(2 * LEASE)
        last = Process()
        while self.fetch(last, 5):
            for task in last.buffer:
                if task.status is Status.RUNNING or self.begun(task):
                    self.run_one(last, task)
            last.buffer = []
            self.settle(last, len(last.running), is_result=True)
        self.reap()
        self.nothing_runs_more_often_than_it_may()
        for task_id in self.max_attempts:
            assert at_once(self.lab.get(task_id)).status in {Status.DONE, Status.DEAD}


Batches.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestBatches = Batches.TestCase
