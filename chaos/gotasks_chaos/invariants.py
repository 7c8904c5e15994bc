"""What must hold after any storm: each invariant with its number, its reason and its query.

A check is that query over the :class:`~gotasks_chaos.evidence.Evidence`: it tells how many
cases it looked at and describes each that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gotasks_chaos.counting import counters_are_true
from gotasks_chaos.evidence import Evidence
from gotasks_chaos.finding import Finding
from gotasks_chaos.leases import leases_hold
from gotasks_chaos.losses import attempts_are_counted, nothing_is_lost, once_is_once
from gotasks_chaos.moments import keys_are_unique, nothing_starts_early
from gotasks_chaos.outcomes import done_was_done, failures_say_why, no_attempt_runs_twice
from gotasks_chaos.recovery import it_recovers

Check: TypeAlias = Callable[[Evidence], Finding]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise, why it matters, what is looked at, and the check that does so."""

    number: int
    promise: str
    reason: str
    query: str
    check: Check


INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        1,
        "every acknowledged task is final in the end; an unclear one exists at most once",
        "what was promised to a producer is kept",
        (
            "Each line that asks, against the tasks that carry its reference and the id that it "
            "was told; nothing exists that nobody asked for, nothing was started that does not "
            "exist, and nothing is refused for an outage"
        ),
        nothing_is_lost,
    ),
    Invariant(
        2,
        "a task of one attempt is started at most once, and orderly stops waste none",
        "some effects must not be repeated, whatever happens",
        (
            "Starts in the ledgers of each task with max_attempts 1, as each has that was asked "
            "for so"
        ),
        once_is_once,
    ),
    Invariant(
        3,
        "starts <= attempts + interruptions, attempts <= max_attempts; orderly stops burn none",
        "a limit that is not counted right is none",
        (
            "Starts of each task, against its counters; an interruption takes a process that "
            "was asked to leave; nothing dies with attempts left; after orderly stops only, "
            "nothing returned twice and no attempt failed but as it was asked to, or as its "
            "grace was over"
        ),
        attempts_are_counted,
    ),
    Invariant(
        4,
        "done means that the attempt that settled it returned, with its result; cancelled stays so",
        "an outcome is never invented or mixed up",
        (
            "The token in the task's mark of settlement, in its result and in the ledger is "
            "one, and that execution returned before the task was done; no attempt is said to "
            "have failed whose handler returned in time; a task whose cancellation was "
            "acknowledged ends as nothing else, no other is cancelled, and nothing final is "
            "claimed"
        ),
        done_was_done,
    ),
    Invariant(
        5,
        "no attempt is started twice",
        "the token of a claim is a fence for outside systems only if it is used once",
        (
            "Starts of each token, and of each attempt's number, which comes again when it was "
            "interrupted"
        ),
        no_attempt_runs_twice,
    ),
    Invariant(
        6,
        "two live executions of a task never overlap, and the loser records nothing",
        "only what cannot be stopped, a frozen process or a thread, may be a zombie",
        (
            "No task is taken over within the lease after its claim, nor, where only processes "
            "are hurt, from one that was at work on it all through its last lease, or had left "
            "in order. Each pair of executions of a task: they overlap only where the first "
            "one's lease was over, or its process was asked to leave, and then by half a second "
            "at most, less the time in which that process did not run: frozen, blocked, "
            "starved; threads are excused. No handler goes on for half a second of such time "
            "after its lease is over. The last claim settles, and no failure is told of another "
            "after it"
        ),
        leases_hold,
    ),
    Invariant(
        7,
        "at most one active task holds a unique key",
        "that is what a unique key is for",
        (
            "For each pair of tasks of a key, the time from the later acknowledgement or first "
            "start to the earlier end; nobody is refused for a key that nobody can have held "
            "a quarter of a second before; nothing final holds one"
        ),
        keys_are_unique,
    ),
    Invariant(
        8,
        "nothing starts before its run_at, by the server's clock",
        "the clocks of workers and producers do not matter",
        (
            "started_at as the server wrote it; starts in the ledger, on the server's clock; "
            "retries and what was timed out, after the backoff; delays, from the moment they "
            "were asked for, less the quarter of a second that a process short of CPU may be "
            "behind the server"
        ),
        nothing_starts_early,
    ),
    Invariant(
        9,
        "metrics never count more than happened, and without kills they count it all",
        "numbers that are wrong are worse than none",
        (
            "The sum of all managers' counters, against the stored tasks; after orderly stops "
            "only they are equal, where nobody was killed they count all that ended and was "
            "acknowledged, and where only processes are hurt all that was done in processes "
            "that left in order"
        ),
        counters_are_true,
    ),
    Invariant(
        10,
        "after the storm everything gets well by itself",
        "nobody restarts a queue at night",
        (
            "No task is due for longer than lease and reap interval, from when the workers have "
            "room for all that is left, or nothing more is done; each key can be taken, and "
            "each worker is seen at as many tasks as it has room for; each manager says that it "
            "is well, and at no time that a loop crashed but for an outage; it begins within "
            "half a minute, leaves within half a minute when asked to, and not before; the "
            "first claim comes at most 5 s after the first bare write that a new primary "
            "acknowledges, not counting when no worker was there or commands were made to fail, "
            "unless that one is lost before; files and log records are bounded"
        ),
        it_recovers,
    ),
    Invariant(
        11,
        "every attempt that failed says why, once",
        "a task that is tried again or dead can be understood",
        (
            "Error entries, one for each attempt that failed; each has a message, says what the "
            "ledger saw of a handler that raised, and whose lease it was; what the storm's "
            "handlers raised names their task"
        ),
        failures_say_why,
    ),
)
