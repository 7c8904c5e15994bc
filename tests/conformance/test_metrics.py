"""Counters, gauges, managers and leaders: what every store keeps of them, and how."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

import pytest

from gotasks_py import ConfigurationError, Counters, LatencySketch, Metering, Node, Status
from gotasks_py.metering import Beat, Report
from gotasks_py.metrics import (
    Activity,
    Gauges,
    Kind,
    Window,
    counters_document,
    daily_gauges_document,
    gauges_document,
    hourly_gauges_document,
    start_of,
)
from gotasks_py.nodes import Candidacy
from tests.lab import HOUR, MINUTE, SECOND, Lab

NODE = Node(
    id="manager.1",
    host="here",
    pid=7,
    version="1.0",
    queues=("q", "$odd.name"),
    types={"q": ("t", "$t"), "$odd.name": ()},
    workers={"q": 8},
    weights={"q": 3, "$odd.name": 1},
    capacity=8,
    running=3,
    loop_lag=timedelta(milliseconds=2),
    rss_bytes=1_000_000,
)
DAY = timedelta(days=1)


def metering(lab: Lab) -> Metering:
    assert isinstance(lab.store, Metering)
    return cast("Metering", lab.store)


@lru_cache(maxsize=1)
def this_minute(lab: Lab) -> datetime:
    """Give the minute in which a test first asks: the same to its end, whatever the clock says."""
    return lab.store.clock.now().replace(second=0, microsecond=0)


def counted(
    lab: Lab,
    *,
    manager: str = "m.1",
    version: int = 1,
    retention: timedelta = DAY,
    latencies: LatencySketch | None = None,
    start: datetime | None = None,
    queue: str = "q",
    type: str = "t",
    **counts: int,
) -> dict[str, Any]:
    activity = Activity(counters=Counters(**counts))
    if latencies is not None:
        activity.run = latencies
    window = Window(
        start=start or this_minute(lab),
        length=MINUTE,
        queue=queue,
        type=type,
        activity=activity,
    )
    return counters_document(manager, window, version, retention)


def gauged(lab: Lab, pending: int, queue: str = "q") -> dict[str, Any]:
    gauges = Gauges(
        start=this_minute(lab),
        length=MINUTE,
        queue=queue,
        at=lab.store.clock.now(),
        counts={Status.PENDING: pending, Status.RUNNING: 2},
        oldest_due_age=timedelta(seconds=5),
        is_paused=True,
    )
    return gauges_document(gauges, DAY)


async def beat(lab: Lab, node: Node = NODE, good_for: timedelta = MINUTE) -> None:
    await metering(lab).report(Report(beat=Beat(node=node, good_for=good_for)))


async def stand(lab: Lab, node: str, lease: timedelta = MINUTE) -> tuple[str, int] | None:
    candidacy = Candidacy(duty="gauges", node=node, lease=lease)
    await metering(lab).report(Report(candidacy=candidacy))
    leads = await metering(lab).leader("gauges")
    return None if leads is None else (leads.node, leads.term)


async def test_counters_of_many_managers_are_summed(lab: Lab) -> None:
    store = metering(lab)
    await store.report(Report(counters=[counted(lab, enqueued=3, done=1)]))
    await store.report(Report(counters=[counted(lab, manager="m.2", done=2, failed=1)]))
    metrics = await store.metrics()
    assert [(each.queue, each.type) for each in metrics.windows] == [("q", "t")]
    assert metrics.total().counters == Counters(enqueued=3, done=3, failed=1)


async def test_what_is_written_again_counts_once(lab: Lab) -> None:
    report = Report(counters=[counted(lab, done=5, version=3)])
    for _ in range(2):
        await metering(lab).report(report)
    assert (await metering(lab).metrics()).total().counters == Counters(done=5)


async def test_what_arrives_late_does_not_replace_what_is_newer(lab: Lab) -> None:
    await metering(lab).report(Report(counters=[counted(lab, done=5, version=2)]))
    await metering(lab).report(Report(counters=[counted(lab, done=4, version=1)]))
    assert (await metering(lab).metrics()).total().counters == Counters(done=5)


async def test_a_newer_version_replaces_the_older(lab: Lab) -> None:
    await metering(lab).report(Report(counters=[counted(lab, done=4, failed=1, version=1)]))
    await metering(lab).report(Report(counters=[counted(lab, done=5, version=2)]))
    assert (await metering(lab).metrics()).total().counters == Counters(done=5)


async def test_windows_come_in_order_and_only_those_of_the_period(lab: Lab) -> None:
    now = this_minute(lab)
    starts = [now - 3 * HOUR, now - 2 * HOUR, now - HOUR, now]
    documents = [counted(lab, start=start, done=1) for start in reversed(starts)]
    await metering(lab).report(Report(counters=documents))
    metrics = await metering(lab).metrics(since=starts[1], until=now)
    assert [each.start for each in metrics.windows] == starts[1:3]


async def test_hours_are_read_instead_of_windows_from_the_full_hour_on(lab: Lab) -> None:
    start = start_of(this_minute(lab), HOUR)
    hours = [
        counters_document(
            manager,
            Window(
                start=at,
                length=HOUR,
                queue=queue,
                type="t",
                activity=Activity(counters=Counters(done=number)),
            ),
            number,
            DAY,
            kind="hours",
        )
        for at, number in ((start - 3 * HOUR, 1), (start - 2 * HOUR, 2), (start, 4))
        for manager in ("m.1", "m.2")
        for queue in ("q", "r")
    ]
    gauges = Gauges(
        start=this_minute(lab),
        length=MINUTE,
        queue="q",
        at=lab.store.clock.now(),
        counts={Status.PENDING: 1},
        oldest_due_age=timedelta(0),
    )
    later = replace(gauges, at=gauges.at + timedelta(seconds=1), counts={Status.PENDING: 2})
    hours += [hourly_gauges_document(each, DAY) for each in (gauges, later, gauges)]
    await metering(lab).report(Report(counters=[counted(lab, done=100)], gauges=[gauged(lab, 9)]))
    for document in hours:
        await metering(lab).report(Report(counters=[document]))

    # Whenever in the hour it is asked for.
    since = start - 2 * HOUR + timedelta(minutes=17)
    metrics = await metering(lab).metrics(queue="q", since=since, hourly=True)

    assert metrics.since == start - 2 * HOUR
    assert [(each.start, each.activity.counters.done) for each in metrics.windows] == [
        (start - 2 * HOUR, 4),
        (start, 8),
    ]
    (hourly,) = metrics.gauges
    assert (hourly.start, hourly.length, hourly.at) == (start, HOUR, later.at)
    assert hourly.counts == {Status.PENDING: 2}
    (window,) = (await metering(lab).metrics(queue="q")).windows
    assert window.activity.counters.done == 100


async def test_days_are_read_from_a_full_day_on(lab: Lab) -> None:
    today = start_of(this_minute(lab), DAY)

    def summed(kind: Kind, length: timedelta, start: datetime, done: int) -> Any:
        activity = Activity(counters=Counters(done=done))
        window = Window(start=start, length=length, queue="q", type="t", activity=activity)
        return counters_document("m.1", window, done, 10 * DAY, kind=kind)

    days = [(today - 3 * DAY, 1), (today - 2 * DAY, 2), (today - DAY, 4), (today, 8)]
    gauges = Gauges(
        start=today - DAY + HOUR,
        length=MINUTE,
        queue="q",
        at=today - DAY + HOUR,
        counts={Status.PENDING: 1},
        oldest_due_age=timedelta(0),
    )
    documents = [
        *(summed("days", DAY, *each) for each in days),
        summed("hours", HOUR, today, 100),
        daily_gauges_document(gauges, 10 * DAY),
    ]
    await metering(lab).report(Report(counters=documents))

    since, until = today - 2 * DAY + 17 * HOUR, today + HOUR  # whenever in the day it is asked for
    metrics = await metering(lab).metrics(since=since, until=until, daily=True)
    assert metrics.since == today - 2 * DAY
    assert [(each.start, each.length) for each in metrics.windows] == [
        (start, DAY) for start, _ in days[1:]
    ]
    assert metrics.total().counters.done == 14
    assert [(each.start, each.length) for each in metrics.gauges] == [(today - DAY, DAY)]
    with pytest.raises(ConfigurationError, match="hourly or daily"):
        await metering(lab).metrics(hourly=True, daily=True)


async def test_a_span_ends_where_the_period_ends(lab: Lab) -> None:
    now = this_minute(lab)
    documents = [counted(lab, start=now - hours * HOUR, done=1) for hours in range(4)]
    await metering(lab).report(Report(counters=documents))
    metrics = await metering(lab).metrics(since=HOUR, until=now - HOUR)
    assert [each.start for each in metrics.windows] == [now - 2 * HOUR]
    assert (metrics.since, metrics.until) == (now - 2 * HOUR, now - HOUR)


async def test_one_queue_or_one_type_can_be_read_alone(lab: Lab) -> None:
    documents = [
        counted(lab, queue=queue, type=name, done=1) for queue in ("a", "b") for name in ("x", "y")
    ]
    await metering(lab).report(Report(counters=documents, gauges=[gauged(lab, 1, "a")]))
    of_queue = await metering(lab).metrics(queue="a")
    of_type = await metering(lab).metrics(type="y")
    assert [(each.queue, each.type) for each in of_queue.windows] == [("a", "x"), ("a", "y")]
    assert [(each.queue, each.type) for each in of_type.windows] == [("a", "y"), ("b", "y")]
    assert [each.queue for each in of_type.gauges] == ["a"]
    assert [each.queue for each in (await metering(lab).metrics(queue="b")).gauges] == []


async def test_names_are_taken_as_they_are(lab: Lab) -> None:
    document = counted(lab, queue="a.b/ü", type="$t".replace("$", "x$"), done=1, manager="$m")
    await metering(lab).report(Report(counters=[document]))
    (window,) = (await metering(lab).metrics(queue="a.b/ü")).windows
    assert (window.queue, window.type) == ("a.b/ü", "x$t")


async def test_latencies_come_back_as_they_were_and_add_up(lab: Lab) -> None:
    fast, slow = LatencySketch.of([0.1] * 90), LatencySketch.of([8.0] * 10)
    await metering(lab).report(Report(counters=[counted(lab, latencies=fast, done=90)]))
    await metering(lab).report(Report(counters=[counted(lab, manager="m.2", latencies=slow)]))
    run = (await metering(lab).metrics()).total().run
    assert run.count == 100
    assert run.p50 is not None
    assert run.p99 is not None
    assert run.p50.total_seconds() == pytest.approx(0.1, rel=0.02)
    assert run.p99.total_seconds() == pytest.approx(8.0, rel=0.02)
    assert run.total_seconds == pytest.approx(89.0)


async def test_the_first_gauges_of_a_window_count(lab: Lab) -> None:
    for pending in (4, 5):
        await metering(lab).report(Report(gauges=[gauged(lab, pending)]))
    (gauges,) = (await metering(lab).metrics()).gauges
    assert gauges.counts == {Status.PENDING: 4, Status.RUNNING: 2}
    assert gauges.running == 2
    assert gauges.oldest_due_age == timedelta(seconds=5)
    assert gauges.is_paused
    assert (await metering(lab).metrics()).latest() == {"q": gauges}


async def test_what_has_passed_its_retention_is_gone(lab: Lab) -> None:
    old = counted(lab, start=this_minute(lab) - HOUR, retention=MINUTE, done=1)
    kept = counted(lab, start=this_minute(lab) - HOUR, retention=DAY, done=1, manager="m.2")
    await metering(lab).report(Report(counters=[old, kept]))
    await metering(lab).report(Report(counters=[counted(lab, failed=1)]))
    await lab.until_purged()
    total = (await metering(lab).metrics(since=2 * HOUR)).total().counters
    assert total == Counters(done=1, failed=1)


async def test_a_manager_that_beats_is_listed_with_all_that_it_said(lab: Lab) -> None:
    await beat(lab, replace(NODE, started_at=this_minute(lab)))
    (node,) = await metering(lab).nodes()
    assert replace(node, beat_at=NODE.beat_at, expires_at=NODE.expires_at) == replace(
        NODE, started_at=this_minute(lab)
    )
    assert node.expires_at - node.beat_at == MINUTE
    assert abs(node.beat_at - lab.store.clock.now()) < 30 * SECOND


async def test_a_later_beat_replaces_the_one_before(lab: Lab) -> None:
    await beat(lab)
    await beat(lab, replace(NODE, running=0))
    assert [node.running for node in await metering(lab).nodes()] == [0]


async def test_managers_are_listed_in_order(lab: Lab) -> None:
    for name in ("b", "c", "a"):
        await beat(lab, replace(NODE, id=name))
    assert [node.id for node in await metering(lab).nodes()] == ["a", "b", "c"]


async def test_a_manager_that_leaves_is_gone_at_once(lab: Lab) -> None:
    await beat(lab)
    await beat(lab, good_for=timedelta(0))
    assert await metering(lab).nodes() == []


async def test_the_first_candidate_leads_and_stays(lab: Lab) -> None:
    assert await metering(lab).leader("gauges") is None
    assert await stand(lab, "a") == ("a", 1)
    assert await stand(lab, "b") == ("a", 1)
    assert await stand(lab, "a") == ("a", 1)


async def test_a_leader_that_is_silent_is_succeeded_in_a_higher_term(lab: Lab) -> None:
    await stand(lab, "a", timedelta(0))
    assert await metering(lab).leader("gauges") is None
    assert await stand(lab, "b") == ("b", 2)
    assert await stand(lab, "a") == ("b", 2)


async def test_a_leader_that_comes_back_in_time_keeps_its_term(lab: Lab) -> None:
    await stand(lab, "a", timedelta(0))
    assert await stand(lab, "a") == ("a", 1)


async def test_an_empty_report_writes_nothing(lab: Lab) -> None:
    await metering(lab).report(Report())
    assert (await metering(lab).metrics()).windows == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"queue": "$ne"}, "queue"),
        ({"queue": {"$ne": "q"}}, "queue"),
        ({"type": ""}, "type"),
        ({"since": datetime(2026, 1, 1)}, "since"),  # noqa: DTZ001  - the mistake
        ({"since": -HOUR}, "since"),
        ({"until": "now"}, "until"),
    ],
)
async def test_a_wrong_question_is_refused(lab: Lab, query: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await metering(lab).metrics(**query)


async def test_a_version_is_first_seen_when_its_first_manager_has_started(lab: Lab) -> None:
    store = lab.store
    assert isinstance(store, Metering)
    now = store.clock.now()

    async def beat(node_id: str, version: str, started_at: datetime) -> None:
        node = Node(id=node_id, host="h", pid=1, version=version, started_at=started_at)
        await store.report(Report(beat=Beat(node=node, good_for=MINUTE)))

    await beat("m.1", "1.0", now - 3 * MINUTE)
    await beat("m.2", "1.1", now - 2 * MINUTE)
    await beat("m.3", "1.0", now - MINUTE)
    await beat("m.1", "1.0", now - 3 * MINUTE)
    await beat("m.4", "", now)

    seen = await store.versions(now - HOUR)
    assert [(each.version, each.at) for each in seen] == [
        ("1.0", now - 3 * MINUTE),
        ("1.1", now - 2 * MINUTE),
    ]
    assert [each.version for each in await store.versions(now - 2 * MINUTE)] == ["1.1"]
