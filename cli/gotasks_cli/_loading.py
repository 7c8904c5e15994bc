"""From ``module:manager`` to a manager, and from a URL to a store."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from gotasks_cli._problems import ExitCode, Problem
from gotasks_py import GotasksError, Manager, Store

GROUP: Final = "gotasks.stores"
"""Entry points by which packages offer stores: a scheme, and a function that takes a URL."""

_APP: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")

_LONGEST_SHOWN: Final = 80


async def load_manager(app: str) -> Manager:
    """Import APP: ``module:name`` of a manager, or of a function, async or not, that makes one.

    Raises:
        Problem: it does not import, or is neither.
    """
    if not _APP.fullmatch(app):
        msg = f"APP must be module:manager, such as shop.tasks:manager, not {app!r}"
        raise Problem(msg)
    module, _, name = app.partition(":")
    named = found = _attribute(_imported(module), app, name or "manager")
    try:
        if not isinstance(found, Manager) and callable(found):
            found = found()
            if inspect.isawaitable(found):
                found = await found
    except GotasksError as error:
        raise Problem(f"{app} failed: {error}", ExitCode.UNUSABLE) from error
    except Exception as error:
        msg = f"{app} cannot be loaded: {type(error).__name__}: {error}{_place(error)}"
        raise Problem(msg, ExitCode.UNUSABLE) from error
    if not isinstance(found, Manager):
        what = f"of type {type(found).__name__}, not a Manager"
        if found is named:
            msg = f"{app} is {what} or a function that makes one"
        else:
            msg = f"{app}() returned {_brief(found)}, {what}"
        raise Problem(msg, ExitCode.UNUSABLE)
    return found


def store_for(url: str) -> Store:
    """Make the store that a URL names, by the packages that are installed.

    Raises:
        Problem: no package offers a store for the URL's scheme.
        ConfigurationError: the store does not understand the rest of it.
    """
    scheme, separator, _ = url.partition("://")
    offered = {each.name: each for each in entry_points(group=GROUP)}
    if not separator or scheme not in offered:
        known = ", ".join(f"{name}://" for name in sorted(offered)) or "none"
        what = f"no store for {scheme}://" if separator else f"{url!r} is not the URL of a store"
        raise Problem(f"{what}; installed packages offer {known}", ExitCode.UNUSABLE)
    try:
        make: Any = offered[scheme].load()
    except (ImportError, AttributeError) as error:
        msg = f"the store for {scheme}:// cannot be loaded: {error}"
        raise Problem(msg, ExitCode.UNUSABLE) from error
    store: Store = make(url)
    return store


def _brief(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def _imported(module: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and _names(module, error.name):
            msg = f"there is no module {error.name!r} in {here} or on the Python path"
        else:
            msg = f"{module} does not import: {type(error).__name__}: {error}{_place(error)}"
        raise Problem(msg, ExitCode.UNUSABLE) from error


def _attribute(module: object, app: str, name: str) -> object:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Problem(f"{app}: there is no {part!r} in it", ExitCode.UNUSABLE)
        found = getattr(found, part)
    return found


def _names(module: str, missing: str | None) -> bool:
    return missing is not None and (module == missing or module.startswith(f"{missing}."))


def _place(error: BaseException) -> str:
    """Tell the line of the user's code that the error came from."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "importlib" not in code.co_filename and code.co_filename != __file__:
            place = f" ({code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place
