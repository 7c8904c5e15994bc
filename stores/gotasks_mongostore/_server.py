"""What kind of server there is, and whether it will do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from gotasks_py.errors import ConfigurationError

logger = logging.getLogger("gotasks_py.mongostore")

_WIRE_VERSION_5_0: Final = 13


def check_server(hello: Mapping[str, object]) -> bool:
    """Refuse a server that is too old; tell whether it has transactions, by its ``hello``.

    Raises:
        ConfigurationError: it is older than MongoDB 5.0.
    """
    version = hello.get("maxWireVersion")
    if isinstance(version, int) and version < _WIRE_VERSION_5_0:
        msg = (
            f"MongoDB 5.0 or newer is needed; this server speaks wire version {version}, "
            f"5.0 speaks {_WIRE_VERSION_5_0}"
        )
        raise ConfigurationError(msg)
    is_standalone = "setName" not in hello and hello.get("msg") != "isdbgrid"
    if is_standalone:
        logger.warning(
            "the server is not a replica set: what it has acknowledged can be lost with it, and "
            "there are no transactions; tasks are found by polling"
        )
    return not is_standalone
