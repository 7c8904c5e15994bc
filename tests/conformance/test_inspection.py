"""Many tasks are listed, counted, grouped and removed, each literally as it was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gotasks_py import lifecycle
from gotasks_py.errors import ConfigurationError, TaskNotFoundError
from gotasks_py.inspecting import Count, Inspecting, Tagging, TaskFilter, TaskPage
from gotasks_py.lifecycle import Failure
from gotasks_py.policy import QueuePolicy
from gotasks_py.task import Status, Task, TaskId
from tests.lab import HOUR, MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio


def inspector(lab: Lab) -> Inspecting:
    assert isinstance(lab.store, Inspecting)
    return lab.store


async def declared(lab: Lab, *names: str) -> Inspecting:
    for name in names or ("q",):
        await lab.store.register_queue(QueuePolicy(name))
    return inspector(lab)


async def a_dead(lab: Lab, kind: str = "E", message: str = "no", **fields: object) -> Task:
    await lab.enqueue(**fields)
    task = await lab.claim(
        queue=str(fields.get("queue", "q")), types=(str(fields.get("type", "t")),)
    )
    assert task is not None
    failure = Failure(1, "worker", kind, message)
    assert await lab.store.settle(ref_of(task), lifecycle.died(failure))
    return await lab.get(task.id)


async def found(lab: Lab, wanted: TaskFilter) -> set[TaskId]:
    page = await inspector(lab).find_tasks(wanted)
    assert page.cursor is None
    return {task.id for task in page.tasks}


async def all_of(
    store: Inspecting, wanted: TaskFilter, limit: int, *, newest_first: bool
) -> list[TaskId]:
    ids: list[TaskId] = []
    cursor: str | None = None
    while True:
        page = await store.find_tasks(wanted, limit=limit, cursor=cursor, newest_first=newest_first)
        ids += [task.id for task in page.tasks]
        cursor = page.cursor
        if cursor is None:
            return ids


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("wanted", [TaskFilter(), TaskFilter(type="t"), TaskFilter(tag="x")])
async def test_every_task_is_reached_once_in_order(
    lab: Lab, wanted: TaskFilter, newest_first: bool
) -> None:
    store = await declared(lab, "q", "r")
    start = lab.store.clock.now()
    # Several are to run at the same moment.
    ids = [
        await lab.enqueue(queue="qr"[n % 2], tags=["x"], run_at=start + n // 3 * SECOND)
        for n in range(10)
    ]
    tasks = [await lab.get(each) for each in ids]
    expected = [each.id for each in sorted(tasks, key=lambda task: (task.run_at, str(task.id)))]

    reached = await all_of(store, wanted, 3, newest_first=newest_first)

    assert reached == (expected[::-1] if newest_first else expected)


async def test_lists_load_no_values_and_only_the_latest_error(lab: Lab) -> None:
    store = await declared(lab)
    dead = await a_dead(lab, payload={"n": 7}, metadata={"m": 1})
    lab.edit(
        dead.id,
        progress={"p": 1},
        result={"r": 1},
        errors=[
            {"kind": "A", "message": "first"},
            {"kind": "B", "message": "second"},
        ],
    )

    (listed,) = (await store.find_tasks(TaskFilter())).tasks

    assert (listed.id, listed.status, listed.type) == (dead.id, Status.DEAD, "t")
    assert (listed.payload, listed.result, listed.progress, listed.metadata) == (None,) * 3 + ({},)
    assert [error.kind for error in listed.errors] == ["B"]


async def test_a_filter_means_all_of_its_parts(lab: Lab) -> None:
    await declared(lab, "q", "r")
    plain = await lab.enqueue(payload={"user": {"id": 7}, "list": [1, 2]}, tags=["x", "y"])
    keyed = await lab.enqueue(unique_key="k", type="u")
    other = await lab.enqueue(queue="r", payload={"value": "7"})
    running = await lab.enqueue(type="v")
    claimed = await lab.claim(types=("v",), owner="m.1a.3")
    assert claimed is not None
    dead = await a_dead(lab, "Boom", "disk 7 is full", type="w", unique_key="old")
    fingerprint = dead.error_fingerprint

    for wanted, expected in (
        (TaskFilter(), {plain, keyed, other, running, dead.id}),
        (TaskFilter(queue="r"), {other}),
        (TaskFilter(queue="nowhere"), set()),
        (TaskFilter(type="u"), {keyed}),
        (TaskFilter(status="running"), {running}),
        (TaskFilter(status=["running", Status.DEAD]), {running, dead.id}),
        (TaskFilter(status=[]), set()),
        (TaskFilter(tag="y"), {plain}),
        (TaskFilter(tag="y", queue="r"), set()),
        (TaskFilter(id=plain), {plain}),
        (TaskFilter(id=str(plain), status="dead"), set()),
        (TaskFilter(unique_key="k"), {keyed}),
        (TaskFilter(unique_key="old"), {dead.id}),
        (TaskFilter(unique_key="old", queue="r"), set()),
        (TaskFilter(unique_key="k", queue="q"), {keyed}),
        (TaskFilter(worker="m.1a.3"), {running}),
        (TaskFilter(worker="m.1a"), {running}),
        (TaskFilter(worker="m.1"), set()),
        (TaskFilter(worker="m.1a", status="dead"), set()),
        (TaskFilter(payload={"user.id": 7}), {plain}),
        (TaskFilter(payload={"user.id": 7.0}), {plain}),
        (TaskFilter(payload={"user.id": True}), set()),
        (TaskFilter(payload={"list": 2}), {plain}),
        (TaskFilter(payload={"value": "7"}), {other}),
        (TaskFilter(payload={"value": "."}), set()),
        (TaskFilter(payload={"value": None}, queue="r"), set()),
        (TaskFilter(error="disk 7"), {dead.id}),
        (TaskFilter(error="d.sk"), set()),
        (TaskFilter(fingerprint=fingerprint), {dead.id}),
        (TaskFilter(fingerprint=fingerprint, type="u"), set()),
        (TaskFilter(fingerprint=fingerprint, status="done"), set()),
        (TaskFilter(run_before=dead.run_at - HOUR), set()),
        (TaskFilter(run_from=dead.run_at + HOUR), set()),
        (TaskFilter(status="dead", run_from=dead.run_at, run_before=dead.run_at + HOUR), {dead.id}),
    ):
        assert (wanted, await found(lab, wanted)) == (wanted, expected)
        number = await inspector(lab).count_tasks(wanted)
        assert (wanted, number) == (wanted, Count(len(expected)))


async def test_an_id_that_no_task_can_have_is_told(lab: Lab) -> None:
    store = await declared(lab)
    with pytest.raises(TaskNotFoundError):
        await store.find_tasks(TaskFilter(id="nonsense"))


@pytest.mark.parametrize("cursor", ["", "nonsense", "%%%", "bm9uc2Vuc2U="])
async def test_a_cursor_that_is_none_is_refused(lab: Lab, cursor: str) -> None:
    store = await declared(lab)
    with pytest.raises(ConfigurationError, match="cursor must be that of an earlier page"):
        await store.find_tasks(TaskFilter(), cursor=cursor)
    with pytest.raises(ConfigurationError, match="cursor must be that of an earlier page"):
        await store.dead_groups(cursor=cursor)


async def test_a_count_ends_at_its_limit_and_says_so(lab: Lab) -> None:
    store = await declared(lab)
    for _ in range(3):
        await lab.enqueue()

    counts: Sequence[object] = [
        await store.count_tasks(wanted, limit=limit)
        for wanted in (TaskFilter(), TaskFilter(status="pending"))
        for limit in (2, 3, 4)
    ]

    assert counts == 2 * [Count(2, is_exact=False), Count(3), Count(3)]
    assert [str(each) for each in counts[:2]] == ["2+", "3"]


async def test_an_overview_tells_how_queues_are_doing(lab: Lab) -> None:
    store = await declared(lab, "empty", "q")
    await lab.store.set_queue_policy(QueuePolicy("q", max_attempts=7, ttl=HOUR))
    dead = await a_dead(lab)
    await lab.enqueue()
    lab.hand.pass_time(MINUTE)
    await lab.enqueue(run_at=lab.store.clock.now() + HOUR)

    empty, q = await store.overview()

    assert (empty.name, set(empty.counts.values()), empty.oldest_due_age) == (
        "empty",
        {Count(0)},
        None,
    )
    assert {status: str(count) for status, count in q.counts.items()} == {
        Status.PENDING: "2",
        Status.RUNNING: "0",
        Status.DONE: "0",
        Status.DEAD: "1",
        Status.CANCELLED: "0",
    }
    assert q.scheduled == Count(1)
    assert q.oldest_due_age is not None
    assert MINUTE <= q.oldest_due_age < 2 * MINUTE
    assert (q.policy.max_attempts, q.policy.ttl, q.pause) == (7, HOUR, None)
    assert [each.name for each in await store.overview("empty")] == ["empty"]
    assert await store.overview("nowhere") == []
    assert dead.queue == "q"


async def test_dead_letters_are_grouped_by_what_they_died_of(lab: Lab) -> None:
    store = await declared(lab, "q", "r")
    for number in range(2):
        await a_dead(lab, "Boom", f"disk {number} is full")
    latest = await a_dead(lab, "Boom", "disk 2 is full", payload={"n": 7})
    await a_dead(lab, "Boom", "no disk")
    await a_dead(lab, "Crash", "no disk", queue="r")

    page = await store.dead_groups()

    assert page.cursor is None
    assert [(each.queue, each.kind, each.count) for each in page.groups[:1]] == [
        ("q", "Boom", Count(3))
    ]
    assert sorted((each.queue, each.kind, each.message) for each in page.groups[1:]) == [
        ("q", "Boom", "no disk"),
        ("r", "Crash", "no disk"),
    ]
    largest = page.groups[0]
    assert (largest.latest.id, largest.latest.payload) == (latest.id, None)
    assert largest.message == "disk 2 is full"
    assert len(await found(lab, TaskFilter(fingerprint=largest.fingerprint))) == 3
    of_r = await store.dead_groups("r")
    assert [each.kind for each in of_r.groups] == ["Crash"]


async def test_groups_come_page_by_page(lab: Lab) -> None:
    store = await declared(lab, "q", "r")
    for number in range(5):
        await a_dead(lab, f"Kind{number}", queue="qr"[number % 2])

    kinds: list[str] = []
    page = await store.dead_groups(limit=2)
    kinds += [each.kind for each in page.groups]
    while page.cursor is not None:
        page = await store.dead_groups(limit=2, cursor=page.cursor)
        assert len(page.groups) <= 2
        kinds += [each.kind for each in page.groups]

    assert sorted(kinds) == [f"Kind{number}" for number in range(5)]


async def test_a_lapse_is_a_cause_like_any_other_and_a_requeue_forgets_it(lab: Lab) -> None:
    store = await declared(lab)
    for owner in ("w.1", "w.2"):
        await lab.enqueue(max_attempts=1)
        await lab.claim(owner=owner)
    lab.hand.pass_time(HOUR)
    first, _ = await lab.store.reap(10)

    (group,) = (await store.dead_groups()).groups
    assert (group.kind, group.count) == ("lease_expired", Count(2))

    requeued = await lab.store.transition(first.id, lifecycle.requeued(fresh_lifetime=False))
    assert requeued is not None
    assert requeued.error_fingerprint is None
    (group,) = (await store.dead_groups()).groups
    assert group.count == Count(1)


async def test_what_no_longer_fits_is_not_deleted(lab: Lab) -> None:
    store = await declared(lab)
    dead, pending = await a_dead(lab), await lab.enqueue()

    number = await store.delete_tasks(TaskFilter(status="dead"), [dead.id, pending])

    assert number == 1
    assert await found(lab, TaskFilter()) == {pending}
    assert await store.delete_tasks(TaskFilter(id=dead.id), [pending]) == 0


@pytest.mark.parametrize("limit", [0, -1, 1001, True, "5"])
async def test_an_impossible_page_is_refused(lab: Lab, limit: int) -> None:
    store = await declared(lab)
    with pytest.raises(ConfigurationError, match="limit must be a whole number from 1 to 1000"):
        await store.find_tasks(TaskFilter(), limit=limit)


async def test_a_page_that_is_full_by_chance_ends_all_the_same(lab: Lab) -> None:
    store = await declared(lab)
    for _ in range(2):
        await lab.enqueue()

    page: TaskPage = await store.find_tasks(TaskFilter(status="pending"), limit=2)

    assert (len(page.tasks), page.cursor) == (2, None)


async def test_tags_are_listed_in_order_by_what_they_begin_with(lab: Lab) -> None:
    assert isinstance(lab.store, Tagging)
    assert await lab.store.tags() == []
    await lab.enqueue(tags=["b", "ab", "aa", "é"])
    await lab.enqueue(tags=["aa", "a.*", "\U0001f600", "c"])
    await lab.enqueue(tags=[])

    assert await lab.store.tags() == ["a.*", "aa", "ab", "b", "c", "é", "\U0001f600"]
    assert await lab.store.tags("a") == ["a.*", "aa", "ab"]
    assert await lab.store.tags("a", limit=2) == ["a.*", "aa"]
    assert await lab.store.tags("a.") == ["a.*"]
    assert await lab.store.tags("b") == ["b"]
    assert await lab.store.tags("bb") == []
    with pytest.raises(ConfigurationError):
        await lab.store.tags("a", limit=0)


async def test_a_hand_that_wrote_other_tags_is_no_matter(lab: Lab) -> None:
    assert isinstance(lab.store, Tagging)
    for tags in ([7, "a"], "b", [["c"]], ["d"]):
        lab.edit(await lab.enqueue(), tags=tags)

    assert {"a", "d"} <= set(await lab.store.tags())
