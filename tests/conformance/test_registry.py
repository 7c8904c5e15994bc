"""The recorded policy of a queue: first come, then agree or change it on purpose."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py import Exponential, Fixed, QueuePolicy
from gotasks_py.errors import QueueConflictError
from gotasks_py.lanes import Lanes
from tests.lab import Lab

pytestmark = pytest.mark.anyio

POLICY = QueuePolicy(
    "emails",
    ttl=timedelta(days=7),
    max_attempts=5,
    timeout=timedelta(seconds=30),
    backoff=Exponential(base=timedelta(seconds=1)),
)
RECORDED = POLICY.recorded_after(None)


async def test_the_first_declaration_is_recorded(lab: Lab) -> None:
    await lab.store.register_queue(POLICY)

    assert await lab.store.queues() == {"emails": RECORDED}


async def test_the_same_declaration_again_changes_nothing(lab: Lab) -> None:
    for _ in range(3):
        await lab.store.register_queue(POLICY)

    assert await lab.store.queues() == {"emails": RECORDED}


async def test_what_concerns_one_manager_alone_is_not_compared(lab: Lab) -> None:
    await lab.store.register_queue(QueuePolicy("q", weight=1))

    await lab.store.register_queue(QueuePolicy("q", weight=5, workers=3))

    assert "weight" not in (await lab.store.queues())["q"]


async def test_another_declaration_is_refused_with_both_values_of_each_field(lab: Lab) -> None:
    await lab.store.register_queue(POLICY)
    other = QueuePolicy(
        "emails", ttl=timedelta(days=1), max_attempts=7, timeout=POLICY.timeout, backoff=Fixed()
    )

    with pytest.raises(QueueConflictError) as refused:
        await lab.store.register_queue(other)

    assert refused.value.queue == "emails"
    assert set(refused.value.differences) == {"ttl_ms", "max_attempts", "backoff"}
    assert refused.value.differences["max_attempts"] == (5, 7)
    assert refused.value.differences["ttl_ms"] == (604_800_000, 86_400_000)
    for shown in ("max_attempts: registered 5, declared 7", "604800000", "set_queue_policy"):
        assert shown in str(refused.value)
    assert await lab.store.queues() == {"emails": RECORDED}


async def test_a_field_that_one_side_leaves_out_conflicts(lab: Lab) -> None:
    await lab.store.register_queue(QueuePolicy("q"))

    with pytest.raises(QueueConflictError) as refused:
        await lab.store.register_queue(QueuePolicy("q", max_attempts=1))

    assert refused.value.differences == {"max_attempts": (None, 1)}


async def test_no_lifetime_and_a_lifetime_of_zero_are_the_same(lab: Lab) -> None:
    await lab.store.register_queue(QueuePolicy("q"))

    await lab.store.register_queue(QueuePolicy("q", ttl=timedelta(0)))

    assert (await lab.store.queues())["q"]["ttl_ms"] is None


async def test_a_policy_is_changed_on_purpose(lab: Lab) -> None:
    await lab.store.register_queue(POLICY)
    changed = QueuePolicy("emails", max_attempts=1)

    await lab.store.set_queue_policy(changed)

    await lab.store.register_queue(changed)
    assert await lab.store.queues() == {"emails": changed.recorded_after(RECORDED)}
    with pytest.raises(QueueConflictError):
        await lab.store.register_queue(POLICY)


async def test_a_policy_can_be_set_before_any_declaration(lab: Lab) -> None:
    await lab.store.set_queue_policy(POLICY)

    await lab.store.register_queue(POLICY)

    assert await lab.store.queues() == {"emails": RECORDED}


async def test_a_declaration_is_answered_with_what_is_recorded(lab: Lab) -> None:
    first = await lab.store.register_queue(QueuePolicy("q", lanes=4))
    await lab.store.set_queue_policy(QueuePolicy("q", lanes=2))

    again = await lab.store.register_queue(QueuePolicy("q", lanes=2))

    shown = ("lanes", "keyed_lanes", "most_lanes")
    assert [first[name] for name in shown] == [4, 4, 4]
    assert [again[name] for name in shown] == [2, 4, 4]


async def test_other_lanes_are_refused(lab: Lab) -> None:
    await lab.store.register_queue(QueuePolicy("q", lanes=4))

    with pytest.raises(QueueConflictError, match="lanes: registered 4, declared 1") as refused:
        await lab.store.register_queue(QueuePolicy("q"))

    assert refused.value.differences == {"lanes": (4, 1)}


@pytest.mark.parametrize("counts", [(1, 16, 4), (16, 1, 8), (4, 4), (2, 64, 1, 3)])
async def test_lanes_change_and_what_keys_and_claims_need_is_kept(
    lab: Lab, counts: tuple[int, ...]
) -> None:
    for count in counts:
        await lab.store.set_queue_policy(QueuePolicy("q", lanes=count))

    lanes = Lanes.from_document((await lab.store.queues())["q"])

    assert lanes == Lanes(current=counts[-1], keyed=counts[0], most=max(counts))


async def test_queues_are_told_apart_by_their_exact_name(lab: Lab) -> None:
    names = ["q", "Q", "a.b", "a/b", "ü", "__proto__", "_id", "a$b"]
    for number, name in enumerate(names, start=1):
        await lab.store.register_queue(QueuePolicy(name, max_attempts=number))

    recorded = await lab.store.queues()

    assert {name: recorded[name]["max_attempts"] for name in names} == {
        name: number for number, name in enumerate(names, start=1)
    }


async def test_of_different_first_declarations_at_once_one_wins(lab: Lab) -> None:
    refused = list[QueueConflictError]()

    async def declare(attempts: int) -> None:
        try:
            await lab.store.register_queue(QueuePolicy("q", max_attempts=attempts))
        except QueueConflictError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for attempts in range(1, 11):
            group.start_soon(declare, attempts)

    (recorded,) = (await lab.store.queues()).values()
    assert len(refused) == 9
    assert {error.differences["max_attempts"][0] for error in refused} == {recorded["max_attempts"]}


async def test_the_same_first_declaration_at_once_is_no_conflict(lab: Lab) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(lab.store.register_queue, POLICY)

    assert await lab.store.queues() == {"emails": RECORDED}


async def test_what_a_reader_does_to_the_answer_is_not_recorded(lab: Lab) -> None:
    await lab.store.register_queue(POLICY)
    recorded = await lab.store.queues()
    backoff = recorded["emails"]["backoff"]
    assert isinstance(backoff, dict)

    backoff.clear()

    await lab.store.register_queue(POLICY)
