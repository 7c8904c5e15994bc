"""The tree of errors, as it is drawn."""

from __future__ import annotations

import inspect
import re

import pytest

import gotasks_py
from gotasks_py import errors
from gotasks_py.errors import (
    DuplicateTaskError,
    GotasksError,
    PartialEnqueueError,
    PayloadError,
    QueueConflictError,
    ResultTimeoutError,
    StoreUnavailableError,
    TaskNotFoundError,
    TaskSignal,
)
from gotasks_py.task import Status


def real_tree() -> dict[str, str]:
    """Tell each class's parent, for all classes that the module defines."""
    return {
        name: value.__bases__[0].__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }


def drawn_tree() -> dict[str, str]:
    """Read the tree out of the module's docstring."""
    tree: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ((?:[│ ]   )*(?:[├└]── )?)(\w+)", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        path[depth:] = [match[2]]
        tree[match[2]] = path[depth - 1] if depth else "Exception"
    return tree


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    assert drawn_tree() == real_tree()


def test_every_error_is_public() -> None:
    assert set(real_tree()) <= set(gotasks_py.__all__)


def test_every_error_says_what_it_is() -> None:
    for name in real_tree():
        assert (getattr(errors, name).__doc__ or "").strip()


@pytest.mark.parametrize("kind", [GotasksError, StoreUnavailableError, errors.LeaseLostError])
def test_an_error_without_a_message_has_a_default_one(kind: type[GotasksError]) -> None:
    message = str(kind("x")) if kind is errors.LeaseLostError else str(kind())
    assert message
    assert "None" not in message


def test_the_default_message_is_the_first_line_of_the_docstring() -> None:
    assert str(GotasksError()) == "Something in gotasks_py went wrong."
    assert str(StoreUnavailableError()) == "The store did not answer; trying again may succeed."


def test_errors_carry_their_data() -> None:
    duplicate = DuplicateTaskError("q", "k", "id")
    assert (duplicate.queue, duplicate.unique_key, duplicate.existing_id) == ("q", "k", "id")
    conflict = QueueConflictError("q", {"b": (1, 2), "a": (None, 3)})
    assert "a: registered None, declared 3; b: registered 1, declared 2" in str(conflict)
    partial = PartialEnqueueError(["x", None], {1: PayloadError("bad", path="a.b")})
    assert str(partial) == "1 of 2 tasks were not enqueued; first: [1] a.b: bad"
    assert str(PartialEnqueueError([], {})) == "0 of 0 tasks were not enqueued"
    assert "still running after 1.5 s" in str(ResultTimeoutError("x", 1.5, Status.RUNNING))


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(ResultTimeoutError, TimeoutError)
    assert issubclass(TaskNotFoundError, LookupError)
    assert issubclass(PayloadError, ValueError)
    assert issubclass(errors.ConfigurationError, ValueError)
    assert not issubclass(TaskSignal, GotasksError)
