"""What the packages offer by name."""

from __future__ import annotations

import importlib
import inspect
import types

import pytest

import gotasks_py

PACKAGES = [
    "gotasks_py",
    "gotasks_cli",
    "gotasks_dashboard",
    "gotasks_memstore",
    "gotasks_mongostore",
]


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_complete_and_sorted(package: str) -> None:
    module = importlib.import_module(package)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and name != "annotations"
    }
    assert set(module.__all__) == public
    assert list(module.__all__) == sorted(module.__all__)


def test_every_public_class_is_documented() -> None:
    named = {name: getattr(gotasks_py, name) for name in gotasks_py.__all__}
    undocumented = [
        name
        for name, value in named.items()
        if inspect.isclass(value)
        and value.__module__.startswith("gotasks_py")
        and not value.__doc__
    ]
    assert undocumented == []


def test_every_public_method_is_documented() -> None:
    missing = [
        f"{name}.{attribute}"
        for name in gotasks_py.__all__
        if inspect.isclass(value := getattr(gotasks_py, name))
        for attribute, member in vars(value).items()
        if inspect.isfunction(member) and not attribute.startswith("_") and not member.__doc__
    ]
    assert missing == []
