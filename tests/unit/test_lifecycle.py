"""The life cycle: the literal table, and every patch from every state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_memstore._expressions import apply  # the evaluation that the store itself uses
from gotasks_py import Status, lifecycle
from gotasks_py.lifecycle import ALLOWED, MAX_ERRORS, Failure, Patch, is_claimable
from gotasks_py.store import TaskDocument

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINE = "t"
LEASE = timedelta(seconds=60)
FAILURE = Failure(1, "w", "ValueError", "message")

TABLE = {
    "pending": {"pending", "running", "cancelled"},
    "running": {"running", "pending", "done", "dead", "cancelled"},
    "done": set[str](),
    "dead": {"pending"},
    "cancelled": set[str](),
}

# What each transition asks of the state it starts from, and where it may lead.
TRANSITIONS: dict[str, tuple[Patch, Status | None, set[Status]]] = {
    "claimed": (
        lifecycle.claimed(token=MINE + "2", owner="w2", lease=LEASE),
        None,
        {Status.RUNNING},
    ),
    "claimed_in_batch": (
        lifecycle.claimed_in_batch(token=MINE + "2", owner="w2", lease=LEASE),
        None,
        {Status.RUNNING, Status.PENDING},
    ),
    "claimed_as_known": (
        lifecycle.claimed_as_known(
            token=MINE + "2", owner="w2", lease=LEASE, attempts=0, max_attempts=3
        ),
        Status.PENDING,
        {Status.RUNNING},
    ),
    "claimed_as_known to be the last": (
        lifecycle.claimed_as_known(
            token=MINE + "2", owner="w2", lease=LEASE, attempts=2, max_attempts=3
        ),
        Status.PENDING,
        {Status.PENDING},
    ),
    "started": (lifecycle.started(owner="w", lease=LEASE), Status.PENDING, {Status.RUNNING}),
    "unreserved": (lifecycle.unreserved(), Status.PENDING, {Status.PENDING}),
    "completed_each": (lifecycle.completed_each(), Status.RUNNING, {Status.DONE}),
    "extended": (lifecycle.extended(LEASE), Status.RUNNING, {Status.RUNNING}),
    "progressed": (lifecycle.progressed(1), Status.RUNNING, {Status.RUNNING}),
    "completed": (lifecycle.completed(1), Status.RUNNING, {Status.DONE}),
    "retried": (lifecycle.retried(FAILURE, LEASE), Status.RUNNING, {Status.PENDING}),
    "died": (lifecycle.died(FAILURE), Status.RUNNING, {Status.DEAD}),
    "snoozed": (lifecycle.snoozed(LEASE), Status.RUNNING, {Status.PENDING}),
    "released": (lifecycle.released(), Status.RUNNING, {Status.PENDING}),
    "cancelled": (lifecycle.cancelled(), Status.RUNNING, {Status.CANCELLED}),
    "withdrawn": (lifecycle.withdrawn(), Status.PENDING, {Status.CANCELLED}),
    "cancel_requested": (lifecycle.cancel_requested(), Status.RUNNING, {Status.RUNNING}),
    "reaped": (lifecycle.reaped(), Status.RUNNING, {Status.DEAD, Status.CANCELLED}),
    "rescued": (lifecycle.rescued(), None, {Status.PENDING, Status.RUNNING}),
    "requeued": (lifecycle.requeued(fresh_lifetime=False), Status.DEAD, {Status.PENDING}),
    "requeued afresh": (lifecycle.requeued(fresh_lifetime=True), Status.DEAD, {Status.PENDING}),
}

# A claim has no source: what it may take is told by ``due_at``.
SOURCED = [name for name, (_, source, _) in TRANSITIONS.items() if source is not None]


def a_document(status: Status, **fields: object) -> TaskDocument:
    """Make a task as it is stored in that state."""
    states: dict[Status, dict[str, object]] = {
        Status.PENDING: {"due_at": NOW},
        Status.RUNNING: {
            "attempts": 1,
            "lease": {"token": "t", "owner": "w", "until": NOW + LEASE},
            "due_at": NOW + LEASE,
        },
        Status.DONE: {"attempts": 1, "finished_at": NOW, "result": {"value": 1}},
        Status.DEAD: {"attempts": 3, "finished_at": NOW, "released_key": "k"},
        Status.CANCELLED: {"finished_at": NOW},
    }
    document = lifecycle.enqueued(
        {"_id": "x", "queue": "q", "type": "t", "max_attempts": 3, "run_at": NOW}, now=NOW
    )
    return {**document, "status": status.value, **states[status], **fields}


def test_the_table_is_this_one() -> None:
    assert {
        str(source): {str(each) for each in targets} for source, targets in ALLOWED.items()
    } == TABLE


def test_every_transition_is_tried_here() -> None:
    makers = {
        name
        for name, value in vars(lifecycle).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__annotations__", {}).get("return") == "Patch"
    }
    assert makers == {name.partition(" ")[0] for name in TRANSITIONS}


def test_every_transition_leads_where_the_table_allows() -> None:
    for patch, source, targets in TRANSITIONS.values():
        sources = [Status.PENDING, Status.RUNNING] if source is None else [source]
        for each in sources:
            assert targets <= ALLOWED[each]
        assert patch.target in targets
    reached = {target for _, _, targets in TRANSITIONS.values() for target in targets}
    assert reached == {target for targets in ALLOWED.values() for target in targets}


@pytest.mark.parametrize(("status", "name"), list(product(Status, SOURCED)))
def test_a_transition_applies_to_its_source_and_to_nothing_else(status: Status, name: str) -> None:
    """Every pair is tried, the forbidden ones too."""
    patch, source, targets = TRANSITIONS[name]
    asked = {"cancel_requested_at": NOW} if patch.cancel_requested else {}

    async def transition() -> tuple[Status | None, Status]:
        store = MemStore()
        await store.insert(a_document(status, **asked))
        changed = await store.transition("x", patch)
        after = await store.get("x")
        assert after is not None
        return (None if changed is None else changed.status), after.status

    changed, after = anyio.run(transition)
    assert (changed in targets) == (status is source)
    assert after is (changed or status)


@pytest.mark.parametrize("status", list(Status))
def test_only_what_is_due_can_be_claimed(status: Status) -> None:
    """Final states carry no ``due_at``, so a claim never sees them."""
    document = a_document(status)
    can_be_claimed = "due_at" in document
    assert can_be_claimed == (Status.RUNNING in ALLOWED[status])


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_due_at_exists_exactly_while_a_claim_may_take_the_task(name: str, attempts: int) -> None:
    patch, source, _ = TRANSITIONS[name]
    before = a_document(source or Status.PENDING)
    if source is Status.RUNNING:
        before["attempts"] = attempts
        if attempts == 3:
            before["reap_at"] = before.pop("due_at")
    after = apply(patch, before, NOW)
    status = Status(str(after["status"]))
    has_attempts = int(str(after["attempts"])) < 3
    asked = "cancel_requested_at" in after
    claimable = status is Status.PENDING or (
        status is Status.RUNNING and has_attempts and not asked
    )
    assert ("due_at" in after) == claimable
    assert ("reap_at" in after) == (status is Status.RUNNING and not claimable)
    is_reservation = name == "claimed_as_known to be the last"
    assert ("lease" in after) == (status is Status.RUNNING or is_reservation)
    assert ("finished_at" in after) == status.is_final


@pytest.mark.parametrize(
    ("attempts", "maximum", "is_last"), [(0, 3, False), (1, 3, False), (2, 3, True), (0, 1, True)]
)
def test_a_claim_on_the_last_attempt_can_only_be_reaped(
    attempts: int, maximum: int, is_last: bool
) -> None:
    document = a_document(Status.PENDING, attempts=attempts, max_attempts=maximum)
    after = apply(lifecycle.claimed(token=MINE, owner="$w", lease=LEASE), document, NOW)
    assert after["attempts"] == attempts + 1
    assert after["lease"] == {"token": "t", "owner": "$w", "until": NOW + LEASE, "due_at": NOW}
    assert (after.get("reap_at"), after.get("due_at")) == (
        (NOW + LEASE, None) if is_last else (None, NOW + LEASE)
    )


def test_a_reclaim_leaves_a_trace_and_a_first_claim_does_not() -> None:
    patch = lifecycle.claimed(token=MINE + "2", owner="w2", lease=LEASE)
    assert apply(patch, a_document(Status.PENDING), NOW)["errors"] == []
    assert apply(patch, a_document(Status.RUNNING), NOW)["errors"] == [
        {
            "at": NOW,
            "attempt": 1,
            "worker": "w",
            "kind": "lease_expired",
            "message": "lease of w expired",
            "traceback": None,
        }
    ]


def test_errors_are_kept_up_to_their_bound() -> None:
    document = a_document(Status.RUNNING)
    for number in range(MAX_ERRORS + 5):
        failure = Failure(number, "w", "k", "m")
        document = {**apply(lifecycle.retried(failure, LEASE), document, NOW)}
    errors = document["errors"]
    assert isinstance(errors, list)
    assert [entry["attempt"] for entry in errors] == list(range(5, MAX_ERRORS + 5))
    assert document["errors_dropped"] == 5


@pytest.mark.parametrize("name", ["snoozed", "released"])
@pytest.mark.parametrize("attempts", [0, 1, 5, "many", None])
def test_an_attempt_that_does_not_count_never_goes_below_zero(name: str, attempts: object) -> None:
    after = apply(TRANSITIONS[name][0], a_document(Status.RUNNING, attempts=attempts), NOW)
    assert after["attempts"] == max(0, (attempts if isinstance(attempts, int) else 0) - 1)


@pytest.mark.parametrize(
    ("fields", "due_at", "reap_at"),
    [
        ({"run_at": NOW + LEASE}, NOW + LEASE, None),
        ({"run_at": "soon"}, NOW, None),
        ({"status": "running"}, NOW + LEASE, None),
        ({"status": "running", "lease": None}, NOW, None),
        ({"status": "running", "attempts": 3}, None, NOW + LEASE),
        ({"status": "running", "attempts": 3, "lease": {"until": "?"}}, None, NOW),
        ({"status": "running", "cancel_requested_at": NOW}, None, NOW + LEASE),
    ],
)
def test_what_is_stuck_is_moved_by_the_path_that_it_had_lost(
    fields: dict[str, object], due_at: datetime | None, reap_at: datetime | None
) -> None:
    lease = {"token": "t", "owner": "w", "until": NOW + LEASE}
    stuck = a_document(Status.PENDING, attempts=1, lease=lease) | fields
    del stuck["due_at"]
    after = apply(lifecycle.rescued(), stuck, NOW)
    assert (after.get("due_at"), after.get("reap_at")) == (due_at, reap_at)
    assert {name: after[name] for name in ("status", "attempts", "errors")} == {
        name: stuck[name] for name in ("status", "attempts", "errors")
    }


def test_a_final_task_lets_go_of_its_key_and_a_requeue_takes_it_again() -> None:
    running = a_document(Status.RUNNING, unique_key="k")
    dead = apply(lifecycle.died(FAILURE), running, NOW)
    assert "unique_key" not in dead
    assert dead["released_key"] == "k"
    back = apply(lifecycle.requeued(fresh_lifetime=False), dead, NOW)
    assert back["unique_key"] == "k"
    assert "released_key" not in back


@pytest.mark.parametrize(
    ("fresh", "ttl_ms", "expected"),
    [
        (False, 60_000, NOW + timedelta(days=1)),
        (True, 60_000, NOW + timedelta(minutes=1)),
        (True, None, NOW + timedelta(days=1)),
    ],
)
def test_a_requeue_keeps_or_renews_the_lifetime(
    fresh: bool, ttl_ms: int | None, expected: datetime
) -> None:
    fields = {"expires_at": NOW + timedelta(days=1)} | ({"ttl_ms": ttl_ms} if ttl_ms else {})
    after = apply(lifecycle.requeued(fresh_lifetime=fresh), a_document(Status.DEAD, **fields), NOW)
    assert after["expires_at"] == expected


def test_a_reaped_task_that_was_to_be_cancelled_is_cancelled() -> None:
    asked = a_document(Status.RUNNING, cancel_requested_at=NOW)
    assert apply(lifecycle.reaped(), asked, NOW)["status"] == "cancelled"
    assert apply(lifecycle.reaped(), asked, NOW)["errors"] == []
    assert apply(lifecycle.reaped(), a_document(Status.RUNNING), NOW)["status"] == "dead"


@pytest.mark.parametrize(
    ("due_at", "expected"),
    [(None, False), (NOW, True), (NOW - LEASE, True), (NOW + timedelta(milliseconds=1), False)],
)
def test_a_task_is_claimable_from_its_due_time_on(due_at: datetime | None, expected: bool) -> None:
    assert is_claimable(due_at, NOW) is expected


@pytest.mark.parametrize("attempts", [0, 1, 2])
@pytest.mark.parametrize(
    "earlier",
    [
        pytest.param({}, id="fresh"),
        pytest.param({"errors": [{"kind": "e"}], "errors_dropped": 1}, id="failed before"),
        pytest.param({"lease": {"token": "t", "owner": "w", "until": NOW}}, id="reserved before"),
    ],
)
def test_a_claim_of_what_is_known_does_what_any_claim_does(
    attempts: int, earlier: dict[str, object]
) -> None:
    document = a_document(Status.PENDING, attempts=attempts, **earlier)
    any_claim = lifecycle.claimed_in_batch(token="t2", owner="w2", lease=LEASE)
    this_claim = lifecycle.claimed_as_known(
        token="t2", owner="w2", lease=LEASE, attempts=attempts, max_attempts=3
    )

    claimed = apply(this_claim, document, NOW + LEASE)

    assert claimed == apply(any_claim, document, NOW + LEASE)
    assert claimed["status"] == this_claim.target.value
