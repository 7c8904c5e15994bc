"""A store in one line: MongoDB's own URI, with the database in its path and the namespace."""

from __future__ import annotations

from urllib.parse import unquote

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
