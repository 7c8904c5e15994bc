"""A store in one line: MongoDB's own URI, with the database in its path and the namespace."""

from __future__ import annotations

import warnings
from urllib.parse import unquote

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from gotasks_py.errors import ConfigurationError


def parts_of(url: str) -> tuple[str, str, str | None]:
    """Tell the URI for the driver, the database and the namespace.

    Raises:
        ConfigurationError: there is no database in it.
    """
    address, _, query = url.partition("?")
    database = unquote(address.partition("://")[2].partition("/")[2])
    if not database:
        msg = "the URL names no database: mongodb://host/DATABASE?replicaSet=rs0"
        raise ConfigurationError(msg)
    options = [each for each in query.split("&") if each]
    ours = [each for each in options if each.partition("=")[0] == "namespace"]
    theirs = "&".join(each for each in options if each not in ours)
    namespace = unquote(ours[-1].partition("=")[2]) if ours else None
    return f"{address}?{theirs}" if theirs else address, database, namespace


def misread_option(uri: str) -> str:
    """Say which option of a URI the driver warns of, and why, in one line."""
    for option in uri.partition("?")[2].split("&"):
        name = unquote(option.partition("=")[0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                parse_uri(f"mongodb://host/?{option}", warn=True)
            except (PyMongoError, ValueError, TypeError):
                continue  # one that has a meaning beside others alone
        if caught:
            why = str(caught[0].message)
            if why.startswith("Unknown option"):
                return f"MongoDB's URIs have no option {name!r}"
            return f"option {name!r}: {why}"
    return "it has an option that the driver does not understand"
