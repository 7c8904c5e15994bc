"""Lists, queues, dead letters, nodes and metrics from the command line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import Count, Status, lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.metering import Beat, Report
from gotasks_py.metrics import COUNTERS, Activity, Counters, Window, counters_document
from gotasks_py.nodes import Node
from gotasks_py.sketch import LatencySketch
from gotasks_py.task import LeaseRef
from tests.cli import shop
from tests.cli.conftest import Terminal
from tests.cli.test_tasks import EMAIL, spoil
from tests.lab import a_claim

HOUR = timedelta(hours=1)


def store() -> MemStore:
    assert isinstance(shop.manager.store, MemStore)
    return shop.manager.store


def die(task_id: str, message: str) -> None:
    """Let a task die of an error."""

    async def run() -> None:
        task = await store().get(task_id)
        assert task is not None
        request = a_claim(task.queue, (task.type,))
        claimed = await store().claim(request)
        assert claimed is not None
        ref = LeaseRef(claimed.id, claimed.queue, 0, request.token)
        await store().settle(ref, lifecycle.died(Failure(1, "w", "RuntimeError", message)))

    anyio.run(run)


def three_dead(gotasks: Terminal) -> list[str]:
    ids = [gotasks.enqueue("emails", "send", EMAIL) for _ in range(3)]
    for task_id, message in zip(ids, ("no host 1", "no host 2", "no route"), strict=True):
        die(task_id, message)
    return ids


def test_tasks_are_listed_by_what_they_are(gotasks: Terminal) -> None:
    first = gotasks.enqueue("emails", "send", EMAIL, "--tag", "vip")
    second = gotasks.enqueue("reports", "monthly", "2026-11", "--unique-key", "k")

    def ids(*options: str) -> list[str]:
        return [each["id"] for each in gotasks("task", "list", "-o", "json", *options).json]

    assert ids() == [second, first]
    assert ids("--oldest-first") == [first, second]
    assert ids("--queue", "emails") == ids("--tag", "vip") == ids("--type", "send") == [first]
    assert ids("--unique-key", "k") == ids("--payload", 'value="2026-11"') == [second]
    assert ids("--payload", "to=a@b.c", "--payload", "copies=1") == [first]
    assert ids("--status", "dead") == []
    assert ids("--limit", "1") == [second]


def test_a_list_goes_on_where_it_ended(gotasks: Terminal) -> None:
    ids = [gotasks.enqueue("emails", "send", EMAIL) for _ in range(3)]
    page = gotasks("task", "list", "-o", "json", "-n", "2", "--oldest-first")
    assert page.err.startswith("there are more: --cursor ")
    rest = gotasks("task", "list", "-o", "json", "--oldest-first", *page.err.split()[3:])
    assert [each["id"] for each in page.json + rest.json] == ids
    assert rest.err == ""


def test_a_list_is_a_table_with_a_line_for_each_task(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    head, row = gotasks("task", "list").out.splitlines()
    assert head.split()[:4] == ["id", "queue", "type", "status"]
    assert row.split()[:6] == [task_id, "emails", "send", "pending", "0", "3"]


def test_an_empty_list_says_so_beside_the_result(gotasks: Terminal) -> None:
    ended = gotasks("task", "list")
    assert (ended.code, ended.out, ended.err) == (0, "", "nothing found\n")
    assert gotasks("task", "list", "-o", "json").json == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("task", "list", "--payload", "to"), "--payload must be PATH=VALUE"),
        (("task", "list", "--payload", '$where="1"'), "a path into a payload"),
        (("task", "list", "--payload", 'to={"$ne": 1}'), "is compared with a text"),
        (("task", "list", "--queue", "$gt"), "must not start with '$'"),
        (("task", "list", "--status", "alive"), "alive"),
        (("task", "list", "--limit", "0"), "--limit"),
        (("task", "list", "--limit", "1001"), "--limit"),
        (("task", "list", "--before", "2026-01-01"), "--before needs a time zone"),
        (("task", "list", "--before", "noon"), "--before is not a time"),
        (("task", "list", "--cursor", "x"), "cursor must be that of an earlier page"),
        (("dead", "list", "--cursor", "x"), "cursor must be that of an earlier page"),
        (("dead", "requeue", "--yes", "--per-second", "0"), "--per-second"),
    ],
)
def test_a_wrong_filter_is_refused_in_one_line(
    gotasks: Terminal, arguments: tuple[str, ...], says: str
) -> None:
    ended = gotasks(*arguments)
    assert ended.code == 2, ended.err
    assert says in ended.err
    assert (ended.out, ended.err.count("\n")) == ("", 1)


def test_a_value_that_looks_like_an_operator_is_taken_literally(gotasks: Terminal) -> None:
    odd = gotasks.enqueue("emails", "send", {"to": "$ne"})
    gotasks.enqueue("emails", "send", EMAIL)
    listed = gotasks("task", "list", "-o", "json", "--payload", "to=$ne").json
    assert [each["id"] for each in listed] == [odd]


def test_queues_tell_how_they_are_doing(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    gotasks.enqueue("emails", "send", EMAIL, "--delay", "3600")
    listed = {each["queue"]: each for each in gotasks("queue", "list", "-o", "json").json}
    emails = listed["emails"]
    assert (emails["state"], emails["pending"], emails["scheduled"]) == (
        "open",
        {"value": 2, "is_exact": True},
        {"value": 1, "is_exact": True},
    )
    assert emails["oldest_due"] >= 0
    gotasks.enqueue("reports", "monthly", "x")
    shown = gotasks("queue", "show", "reports", "-o", "json").json
    assert shown["policy"] == {"max_attempts": 1, "lanes": 1}
    assert gotasks("queue", "list").out.splitlines()[1].split()[:2] == ["emails", "open"]
    assert listed["emails"]["capacity"] == 0
    node = Node(
        id="m.1", host="h", pid=7, version="1", types={"emails": ("send",)}, workers={"emails": 3}
    )
    for each in (node, replace(node, id="m.2"), replace(node, id="m.3")):
        anyio.run(store().report, Report(beat=Beat(node=each, good_for=HOUR)))
    assert gotasks("node", "quiet", "m.3").code == 0  # and claims nothing
    assert gotasks("queue", "show", "emails", "-o", "json").json["capacity"] == 6


@pytest.mark.parametrize("command", ["show"])
def test_an_unknown_queue_is_not_found(gotasks: Terminal, command: str) -> None:
    ended = gotasks("queue", command, "nowhere")
    assert ended.code == 4
    assert "'nowhere'" in ended.err


def test_dead_letters_are_grouped_by_their_cause(gotasks: Terminal) -> None:
    three_dead(gotasks)
    groups = gotasks("dead", "list", "-o", "json").json
    assert [(each["count"]["value"], each["kind"]) for each in groups] == [
        (2, "RuntimeError"),
        (1, "RuntimeError"),
    ]
    assert groups[1]["message"] == "no route"


def test_dead_letters_of_one_cause_are_requeued(gotasks: Terminal) -> None:
    ids = three_dead(gotasks)
    groups = gotasks("dead", "list", "-o", "json").json
    asked = gotasks("dead", "requeue", "--fingerprint", groups[0]["fingerprint"])
    assert (asked.code, "Requeue 2 dead letters?" in asked.err) == (2, True)
    ended = gotasks(
        "dead", "requeue", "--fingerprint", groups[0]["fingerprint"], "--yes", "-o", "json"
    )
    assert (ended.code, ended.json["changed"]) == (0, 2)
    left = gotasks("task", "list", "--status", "dead", "-o", "json").json
    assert [each["id"] for each in left] == ids[2:]


def test_what_cannot_be_requeued_is_told_and_shows_in_the_exit_code(gotasks: Terminal) -> None:
    dead = gotasks.enqueue("emails", "send", EMAIL, "--unique-key", "k")
    die(dead, "no host")
    gotasks.enqueue("emails", "send", EMAIL, "--unique-key", "k")
    ended = gotasks("dead", "requeue", "--yes")
    assert ended.code == 1
    assert "0 of 1 done, 1 refused" in ended.err
    assert f"{dead}: " in ended.err


def test_dead_letters_are_purged(gotasks: Terminal) -> None:
    ids = three_dead(gotasks)
    ended = gotasks("dead", "purge", "--error", "no host", "--yes")
    assert (ended.code, ended.err) == (0, "2 of 2 done, 0 refused\n")
    assert gotasks("task", "show", ids[2]).code == 0


def test_a_count_that_is_not_exact_is_told_as_the_least(
    gotasks: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_dead(gotasks)

    async def count(*_: object, **__: object) -> Count:
        return Count(0, is_exact=False)

    monkeypatch.setattr(store(), "count_tasks", count)
    # Of which none was among those that were looked at: there may be some all the same.
    asked = gotasks("dead", "purge", "--error", "no host")
    assert (asked.code, "Delete at least 0 dead letters?" in asked.err) == (2, True)
    ended = gotasks("dead", "purge", "--error", "no host", "--yes")
    assert (ended.code, ended.err) == (0, "2 done, 0 refused\n")


def test_a_purge_of_nothing_asks_nothing(gotasks: Terminal) -> None:
    assert gotasks("dead", "purge").code == 0


def test_a_queue_is_purged_of_what_is_final_or_as_told(gotasks: Terminal) -> None:
    three_dead(gotasks)
    pending = gotasks.enqueue("emails", "send", EMAIL)
    assert gotasks("queue", "purge", "emails").code == 2
    assert gotasks("queue", "purge", "emails", "--yes").code == 0
    assert [each["id"] for each in gotasks("task", "list", "-o", "json").json] == [pending]
    ended = gotasks("queue", "purge", "emails", "--status", "pending", "--yes", "-o", "json")
    assert ended.json["changed"] == 1


def test_nodes_are_listed_while_they_are_heard_of(gotasks: Terminal) -> None:
    now = store().clock.now()
    node = Node(
        id="m.1",
        host="h",
        pid=7,
        version="1",
        queues=("q", "r"),
        types={"r": ("b",), "q": ("a", "b")},
        capacity=8,
        running=3,
        rss_bytes=50 * 1024 * 1024,
        started_at=now - HOUR,
    )
    anyio.run(store().report, Report(beat=Beat(node=node, good_for=HOUR)))
    (listed,) = gotasks("node", "list", "-o", "json").json
    assert (listed["node"], listed["state"], listed["memory_mib"]) == ("m.1", "working", 50)
    assert (listed["running"], listed["capacity"], listed["queues"]) == (3, 8, ["q", "r"])
    assert listed["types"] == ["q/a", "q/b", "r/b"]
    shown = gotasks("node", "list").out
    assert "q, r " in shown
    assert "q/a, q/b, r/b " in shown
    assert listed["up"] >= 3600
    assert "1.0 h" in gotasks("node", "list").out or "60" in gotasks("node", "list").out


def test_metrics_are_summed_over_managers(gotasks: Terminal) -> None:
    now = store().clock.now()
    activity = Activity(counters=Counters(claimed=3, done=2), run=LatencySketch.of([0.1, 0.1, 2]))
    window = Window(
        start=now - timedelta(minutes=5),
        length=timedelta(minutes=1),
        queue="q",
        type="t",
        activity=activity,
    )
    documents = [counters_document(name, window, 1, HOUR) for name in ("a", "b")]
    anyio.run(store().report, Report(counters=documents))
    (row,) = gotasks("metrics", "show", "-o", "json").json
    assert (row["queue"], row["type"], row["claimed"], row["done"]) == ("q", "t", 6, 4)
    assert row["run"]["p50"] == pytest.approx(0.1, rel=0.02)
    assert row["run"]["p99"] == pytest.approx(2, rel=0.02)
    assert row["wait"] == {"p50": None, "p95": None, "p99": None}
    assert re.search(r"(99|100|101) ms / 2\.0 s / 2\.0 s$", gotasks("metrics", "show").out.strip())
    assert gotasks("metrics", "show", "--minutes", "2", "-o", "json").json == []
    assert gotasks("metrics", "show", "--queue", "$x").code == 2


def test_what_runs_is_counted(gotasks: Terminal) -> None:
    task_id = gotasks.enqueue("emails", "send", EMAIL)
    spoil(task_id, status=Status.RUNNING.value)
    running = json.loads(gotasks("queue", "list", "-o", "json").out)[0]["running"]
    assert running == {"value": 1, "is_exact": True}


def test_queues_tell_the_workers_that_they_want(gotasks: Terminal) -> None:
    for _ in range(3):
        gotasks.enqueue("emails", "send", EMAIL)
    (row,) = gotasks("metrics", "scaling", "-o", "json").json
    assert (row["queue"], row["due"], row["wanted_workers"]) == ("emails", 3, 1)
    assert gotasks("metrics", "scaling", "--target-wait", "0").code == 2


@pytest.mark.parametrize(
    ("shell", "words", "offers"),
    [
        ("bash", "gotasks que", "queue"),
        ("zsh", "gotasks task sh", "show"),
        ("fish", "gotasks task list --status ru", "running"),
    ],
)
def test_shells_can_complete_commands_and_values(
    gotasks: Terminal, shell: str, words: str, offers: str
) -> None:
    asked: dict[str, str | None] = {
        "_GOTASKS_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert offers in gotasks(env=asked).out


@pytest.mark.parametrize(
    "arguments",
    [
        ("queue", "purge", "nope", "--yes"),
        ("dead", "purge", "-q", "nope", "--yes"),
        ("dead", "requeue", "-q", "nope", "--yes"),
        ("dead", "requeue", "--fingerprint", "nope", "--yes"),
        ("dead", "list", "-q", "nope"),
        ("task", "list", "-q", "nope"),
        ("task", "list", "-t", "nope"),
        ("metrics", "show", "-q", "nope"),
        ("metrics", "show", "-t", "nope"),
    ],
)
def test_a_name_that_nobody_knows_is_no_empty_answer(
    gotasks: Terminal, arguments: tuple[str, ...]
) -> None:
    gotasks.enqueue("emails", "send", EMAIL)
    ended = gotasks(*arguments)
    assert ended.code == 4, ended.err
    assert "'nope'" in ended.err
    assert (ended.out, ended.err.count("\n")) == ("", 1)


def test_json_keeps_tags_and_attempts_apart(gotasks: Terminal) -> None:
    gotasks.enqueue("emails", "send", EMAIL, "--tag", "a b", "--tag", "c")
    (row,) = gotasks("task", "list", "-o", "json").json
    assert (row["tags"], row["attempts"], row["max_attempts"]) == (["a b", "c"], 0, 3)


def test_a_known_name_may_find_nothing(gotasks: Terminal) -> None:
    assert gotasks("task", "list", "-q", "emails").code == 0
    assert gotasks("task", "list", "-q", "emails", "-t", "send").code == 0
    assert gotasks("dead", "purge", "-q", "emails", "-t", "send", "--yes").code == 0


def test_metrics_reach_back_a_year_and_tell_every_counter(gotasks: Terminal) -> None:
    window = Window(
        start=store().clock.now() - timedelta(minutes=5),
        length=timedelta(minutes=1),
        queue="q",
        type="t",
        activity=Activity(counters=Counters(requeued=1, snoozed=2, rescued=3)),
    )
    anyio.run(store().report, Report(counters=[counters_document("a", window, 1, HOUR)]))
    (row,) = gotasks("metrics", "show", "-o", "json").json
    assert [row[name] for name in COUNTERS] == [
        getattr(window.activity.counters, name) for name in COUNTERS
    ]
    assert gotasks("metrics", "show", "--minutes", str(365 * 24 * 60)).code == 0
    assert gotasks("metrics", "show", "--minutes", str(366 * 24 * 60)).code == 2
