"""What the docs list is what the code has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gotasks_py
from gotasks_mongostore import MongoStore
from gotasks_py import (
    JanitorConfig,
    Manager,
    MetricsConfig,
    PipelineMode,
    QueuePolicy,
    TaskPolicy,
    errors,
)
from gotasks_py.autoscaling import ScalingConfig
from tests.docs import lifecycle_chart

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<second>[^|]+?) \|", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#]*)(?:#(?P<anchor>[^)]*))?\)")


def section(page: str, heading: str) -> str:
    text = (DOCS / page).read_text()
    start = text.index(f"\n## {heading}\n")
    end = text.find("\n## ", start + 1)
    return text[start : end if end > 0 else None]


def shown(default: object) -> str:
    if default is None:
        return "–"  # noqa: RUF001  - a dash in a table
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g} s"
    if default in (JanitorConfig(), MetricsConfig()):
        return f"`{type(default).__name__}()`"
    return f"`{default!r}`"


def options_of(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """Tell names and defaults of all keyword options, as the tables show them."""
    fields: dict[str, Field[Any]] = getattr(function, "__dataclass_fields__", {})
    options: list[tuple[str, str]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        default = parameter.default
        factory = fields[name].default_factory if name in fields else MISSING
        if factory is not MISSING:
            default = factory()
        options.append((name, shown(default)))
    return options


@pytest.mark.parametrize(
    ("heading", "function"),
    [
        ("Manager", Manager),
        ("QueuePolicy", QueuePolicy),
        ("TaskPolicy", TaskPolicy),
        ("Handlers", Manager.handler),
        ("PipelineMode", PipelineMode),
        ("JanitorConfig", JanitorConfig),
        ("MetricsConfig", MetricsConfig),
        ("ScalingConfig", ScalingConfig),
        ("MongoStore", MongoStore),
    ],
)
def test_the_tables_of_options_are_the_signatures(
    heading: str, function: Callable[..., Any]
) -> None:
    documented = [
        (row["name"], row["second"]) for row in ROW.finditer(section("configuration.md", heading))
    ]
    assert options_of(function) == documented


def test_the_catalogue_lists_every_error() -> None:
    in_tree = re.compile(r"^\s*[│├└─ ]*(\w+(?:Error|Signal)|Retry|Snooze|Reject)\b", re.MULTILINE)
    tree = in_tree.findall(errors.__doc__ or "")
    page = (DOCS / "errors.md").read_text()
    documented = [row["name"] for row in ROW.finditer(page.split("## In a task's")[0])]
    assert sorted(tree) == sorted(documented)
    assert set(documented) == error_names()
    assert set(documented) <= set(gotasks_py.__all__)


def error_names() -> set[str]:
    bases = (errors.GotasksError, errors.TaskSignal)
    return {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, bases)
    }


def test_the_catalogue_names_the_attributes_of_each_error() -> None:
    page = (DOCS / "errors.md").read_text()
    rows = {
        match["name"]: page[match.start() : page.index("\n", match.start())]
        for match in ROW.finditer(page)
    }
    for name in error_names():
        initializer = vars(errors)[name].__dict__.get("__init__")
        source = inspect.getsource(initializer) if initializer else ""
        for attribute in re.findall(r"self\.(\w+) = ", source):
            assert f"`{attribute}`" in rows[name], f"{name}.{attribute} is not in errors.md"


def test_the_catalogue_lists_the_kinds_that_a_task_may_record() -> None:
    listed = {row["name"] for row in ROW.finditer(section("errors.md", "In a task's `errors`"))}
    docstring = gotasks_py.AttemptError.__doc__ or ""
    assert set(re.findall(r"``(\w+)``", docstring)) - {"kind"} == listed


def test_every_change_of_state_has_a_label() -> None:
    assert set(lifecycle_chart.LABELS) == set(lifecycle_chart.edges())


def test_the_chart_of_the_life_cycle_is_current() -> None:
    assert lifecycle_chart.page() == lifecycle_chart.PAGE.read_text()


def test_links_lead_somewhere() -> None:
    for page in [*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")]:
        for link in LINK.finditer(page.read_text()):
            target = (page.parent / link["path"]).resolve() if link["path"] else page
            assert target.exists(), f"{page.name}: {link['path']}"
            if link["anchor"]:
                headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
                anchors = {heading.lower().replace(" ", "-") for heading in headings}
                assert link["anchor"] in anchors, f"{page.name}: #{link['anchor']}"
