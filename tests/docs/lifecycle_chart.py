"""Writes docs/lifecycle.md from ``gotasks_py.lifecycle.ALLOWED``.

``python tests/docs/lifecycle_chart.py`` after a change of the life cycle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gotasks_py.lifecycle import ALLOWED
from gotasks_py.task import Status

PAGE: Final = Path(__file__).parents[2] / "docs" / "lifecycle.md"

LABELS: Final = {
    (Status.PENDING, Status.PENDING): "reserve, give back",
    (Status.PENDING, Status.RUNNING): "claim",
    (Status.PENDING, Status.CANCELLED): "cancel",
    (Status.RUNNING, Status.RUNNING): "claim after the lease lapsed",
    (Status.RUNNING, Status.PENDING): "retry, snooze, hand back",
    (Status.RUNNING, Status.DONE): "success",
    (Status.RUNNING, Status.DEAD): "no attempt left, rejected, lapsed",
    (Status.RUNNING, Status.CANCELLED): "cancel",
    (Status.DEAD, Status.PENDING): "requeue",
}

_HEAD: Final = """\
# Life cycle

<!-- Written by tests/docs/lifecycle_chart.py; a test compares the two. -->

```mermaid
stateDiagram-v2
    [*] --> pending: enqueue
"""

_TAIL: Final = """\
```

`done`, `dead` and `cancelled` are final: nothing happens to such a task any more unless somebody
asks for it. Deleting, and the purge at the end of a task's lifetime, remove it in any state.

| from | to | when |
|---|---|---|
"""


def edges() -> list[tuple[Status, Status]]:
    """Tell every allowed change of state, in the order of the states."""
    return [(source, target) for source in Status for target in Status if target in ALLOWED[source]]


def page() -> str:
    """Make the page."""
    moves = "".join(f"    {a.value} --> {b.value}: {LABELS[a, b]}\n" for a, b in edges())
    ends = "".join(f"    {state.value} --> [*]\n" for state in Status if not ALLOWED[state])
    rows = "".join(f"| {a.value} | {b.value} | {LABELS[a, b]} |\n" for a, b in edges())
    return f"{_HEAD}{moves}{ends}{_TAIL}{rows}"


if __name__ == "__main__":
    PAGE.write_text(page())
