"""Storing new tasks, one by one and many at once."""

from __future__ import annotations

import anyio
import pytest

from gotasks_py.errors import DuplicateTaskError, TaskNotFoundError
from gotasks_py.task import Status
from tests.lab import HOUR, Lab, token_of

pytestmark = pytest.mark.anyio


async def test_what_is_inserted_is_what_is_stored(lab: Lab) -> None:
    document = lab.a_task(unique_key="k", tags=["a"], metadata={"by": "me"}, expires_at=None)

    await lab.store.insert(document)

    assert lab.raw(document["_id"]) == document


async def test_a_new_task_is_pending_with_no_attempts(lab: Lab) -> None:
    task = await lab.get(await lab.enqueue(priority=4, tags=["x"]))

    assert task.status is Status.PENDING
    assert (task.attempts, task.interruptions, task.errors, task.lease) == (0, 0, (), None)
    assert (task.queue, task.type, task.priority, task.tags) == ("q", "t", 4, ("x",))


async def test_inserting_the_same_task_again_changes_nothing(lab: Lab) -> None:
    document = lab.a_task(payload={"n": 1}, unique_key="k")
    await lab.store.insert(document)
    claimed = await lab.claim()
    assert claimed is not None

    await lab.store.insert({**document, "payload": {"n": 2}})

    task = await lab.get(document["_id"])
    assert (task.payload, task.status) == ({"n": 1}, Status.RUNNING)
    assert token_of(task) == token_of(claimed)


async def test_what_the_caller_does_to_a_document_later_is_not_stored(lab: Lab) -> None:
    payload = {"list": [1]}
    document = lab.a_task(payload=payload)
    await lab.store.insert(document)

    payload["list"].append(2)
    document["queue"] = "other"

    task = await lab.get(document["_id"])
    assert (task.payload, task.queue) == ({"list": [1]}, "q")


async def test_what_a_reader_does_to_a_payload_is_not_stored(lab: Lab) -> None:
    task = await lab.claimed(payload={"list": [1]})
    assert isinstance(task.payload, dict)

    task.payload["list"].append(2)

    assert (await lab.get(task.id)).payload == {"list": [1]}


async def test_many_are_stored_with_one_call(lab: Lab) -> None:
    documents = [lab.a_task(payload={"n": n}) for n in range(2_345)]

    failures = await lab.store.insert_many(documents)

    assert failures == {}
    assert lab.raw(documents[0]["_id"])["payload"] == {"n": 0}
    assert lab.raw(documents[-1]["_id"])["payload"] == {"n": 2_344}


async def test_no_documents_are_no_failures(lab: Lab) -> None:
    assert await lab.store.insert_many([]) == {}


async def test_bulk_failures_are_told_by_index_and_the_rest_is_stored(lab: Lab) -> None:
    holder = await lab.enqueue(unique_key="taken")
    keys = ["a", "taken", "b", "a", "c"]
    documents = [lab.a_task(unique_key=key) for key in keys]

    failures = await lab.store.insert_many(documents)

    assert set(failures) == {1, 3}
    assert isinstance(failures[1], DuplicateTaskError)
    assert failures[1].existing_id == holder
    assert isinstance(failures[3], DuplicateTaskError)
    assert failures[3].existing_id == documents[0]["_id"]
    stored = [await lab.store.get(document["_id"]) is not None for document in documents]
    assert stored == [True, False, True, False, True]


async def test_a_bulk_sent_again_is_no_duplicate_of_itself(lab: Lab) -> None:
    documents = [lab.a_task(unique_key=f"k{n}") for n in range(5)]
    await lab.store.insert_many(documents[:3])

    assert await lab.store.insert_many(documents) == {}
    for document in documents:
        assert await lab.store.get(document["_id"]) is not None


async def test_fifty_at_once_with_one_key_make_one_task(lab: Lab) -> None:
    documents = [lab.a_task(unique_key="k") for _ in range(50)]
    holders: list[object] = []

    async def insert(number: int) -> None:
        try:
            await lab.store.insert(documents[number])
        except DuplicateTaskError as error:
            holders.append(error.existing_id)

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(insert, number)

    stored = [each["_id"] for each in documents if await lab.store.get(each["_id"]) is not None]
    assert len(stored) == 1
    assert holders == stored * 49


async def test_ids_are_read_back_from_their_text(lab: Lab) -> None:
    task_id = await lab.enqueue()

    assert lab.store.parse_id(str(task_id)) == task_id
    assert lab.store.parse_id(task_id) == task_id


@pytest.mark.parametrize("text", ["", "zzz", "0" * 23, "0" * 25, None, 7, b"abc", object()])
async def test_what_cannot_be_an_id_is_not_found(lab: Lab, text: object) -> None:
    with pytest.raises(TaskNotFoundError):
        lab.store.parse_id(text)


async def test_an_upper_case_id_names_the_same_task(lab: Lab) -> None:
    task_id = await lab.enqueue()

    assert lab.store.parse_id(str(task_id).upper()) == task_id


async def test_an_unknown_id_is_no_task(lab: Lab) -> None:
    assert await lab.store.get(lab.store.new_id()) is None
    assert await lab.store.delete(lab.store.new_id()) is False


async def test_a_deleted_task_is_gone_and_its_key_free(lab: Lab) -> None:
    task_id = await lab.enqueue(unique_key="k")

    assert await lab.store.delete(task_id) is True

    assert await lab.store.get(task_id) is None
    assert await lab.store.delete(task_id) is False
    await lab.enqueue(unique_key="k")


async def test_an_expired_task_goes_away(lab: Lab) -> None:
    now = lab.store.clock.now()
    task_id = await lab.enqueue(expires_at=now + HOUR)
    kept = await lab.enqueue(expires_at=now + 3 * HOUR)

    lab.pass_time(2 * HOUR)

    with anyio.fail_after(10):
        while await lab.store.get(task_id) is not None:
            await anyio.sleep(0.05)  # a server looks once a second
    assert await lab.store.get(kept) is not None
