"""Operations that a server has, or had, that is no longer the primary."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio import to_thread
from pymongo.server_description import ServerDescription
from pymongo.topology_description import TopologyDescription

from gotasks_mongostore import MongoStore, _elections, _inserts
from gotasks_mongostore._elections import Elections, PrimaryReplacedError, primary_of
from gotasks_mongostore.local import LocalReplicaSet
from gotasks_py import Enqueue, Manager, QueuePolicy
from gotasks_py.errors import StoreUnavailableError
from tests.lab import Lab, a_claim

pytestmark = pytest.mark.anyio


class Topology:
    """Whom the driver takes for the primary."""

    def __init__(self, primary: str | None = "a") -> None:
        self.primary = primary
        self.looks = 0
        self.elections = Elections(self.look)

    def look(self) -> str | None:
        self.looks += 1
        return self.primary

    async def outlived(self, *primaries: str | None) -> bool:
        """Follow an operation through so many looks at each primary that it could be let go of."""
        with self.elections.followed():
            for self.primary in primaries:
                seen_enough = self.looks + 10
                while self.looks < seen_enough:
                    await anyio.sleep(0.001)
        return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("mongo") is None:
        monkeypatch.setattr(_elections, "_GRACE_SECONDS", 0.02)
        monkeypatch.setattr(_elections, "_LOOK_SECONDS", 0.005)


async def test_an_operation_is_let_go_of_when_another_primary_was_elected() -> None:
    topology = Topology()

    async def wait() -> None:
        with topology.elections.followed():
            topology.primary = "b"
            await anyio.sleep_forever()

    with (
        anyio.fail_after(20),
        pytest.raises(PrimaryReplacedError, match="elected, and a does not answer"),
    ):
        await wait()


async def test_without_another_primary_it_goes_on() -> None:
    assert await Topology().outlived("a", None, "a")


async def test_one_that_waited_for_an_election_belongs_to_the_new_primary() -> None:
    assert await Topology(None).outlived(None, "b")


async def test_the_driver_has_time_to_send_it_to_the_new_primary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_elections, "_GRACE_SECONDS", 60)
    assert await Topology().outlived("b")


async def test_nobody_looks_when_nothing_is_under_way() -> None:
    topology = Topology()
    with pytest.raises(LookupError), topology.elections.followed():
        raise LookupError
    with anyio.move_on_after(0.01) as scope, topology.elections.followed():
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    await anyio.sleep(0.05)
    looks = topology.looks
    await anyio.sleep(0.05)
    assert topology.looks == looks


def test_only_a_replica_set_has_a_primary() -> None:
    here = ("127.0.0.1", 1)
    one = TopologyDescription(0, {here: ServerDescription(here)}, None, None, None, None)  # type: ignore[arg-type,no-untyped-call,unused-ignore]  # unknown as yet
    assert primary_of(one) is None


class Replaced:
    """An election that each operation which is followed meets with."""

    @contextmanager
    def followed(self) -> Generator[None]:
        yield
        raise PrimaryReplacedError


@pytest.mark.mongo
@pytest.mark.parametrize(("max_attempts", "times"), [(1, 1), (2, 2)])
async def test_only_a_task_that_may_run_twice_is_inserted_twice(
    mongo_lab: Lab, monkeypatch: pytest.MonkeyPatch, max_attempts: int, times: int
) -> None:
    """Else one that was stored, run and deleted in between would run again."""
    inserts: list[str] = []
    insert, insert_many = _inserts.insert, _inserts.insert_many

    async def count_one(*arguments: Any) -> None:
        inserts.append("one")
        await insert(*arguments)

    async def count_many(*arguments: Any) -> Any:
        inserts.append("many")
        return await insert_many(*arguments)

    monkeypatch.setattr(_inserts, "insert", count_one)
    monkeypatch.setattr(_inserts, "insert_many", count_many)
    store: Any = mongo_lab.store
    here = store._connection.collections()  # noqa: SLF001  - no election can be had so quickly
    monkeypatch.setattr(here, "elections", Replaced())
    one, other = (mongo_lab.a_task(max_attempts=max_attempts) for _ in range(2))
    await store.insert(one)
    assert await store.insert_many([other]) == {}
    assert inserts == [*["one"] * times, *["many"] * times]
    assert mongo_lab.raw(one["_id"])["max_attempts"] == max_attempts


@pytest.mark.mongo
@pytest.mark.timeout(180)
async def test_nobody_waits_for_a_primary_that_froze() -> None:
    servers = LocalReplicaSet(members=3)
    await to_thread.run_sync(servers.__enter__)
    try:
        # With the driver's own time limits only, all of this would take a minute.
        store = await MongoStore.connect(
            servers.uri, database="app", operation_timeout=timedelta(seconds=60)
        )
        manager = Manager(store, queues=[QueuePolicy("q")], lease=timedelta(minutes=2))
        ran: list[int] = []
        all_ran = anyio.Event()

        @manager.handler("q", "t")
        async def handle(number: int) -> None:
            ran.append(number)
            if len(ran) == 4:
                all_ran.set()

        async def enqueue_many() -> None:
            await manager.enqueue_many([Enqueue("q", "t", number) for number in (2, 3, 4)])

        async with manager:
            victim = await to_thread.run_sync(servers.primary)
            await to_thread.run_sync(servers.pause, victim)
            try:
                with anyio.fail_after(45):
                    async with anyio.create_task_group() as group:
                        group.start_soon(handle.enqueue, 1)
                        group.start_soon(enqueue_many)
                        group.start_soon(store.queues)
                        with pytest.raises(StoreUnavailableError, match="primary was elected"):
                            await store.claim(a_claim())
                    await all_ran.wait()
            finally:
                await to_thread.run_sync(servers.resume, victim)
        assert sorted(ran) == [1, 2, 3, 4]
        await store.aclose()
    finally:
        await to_thread.run_sync(servers.__exit__, None, None, None)
