"""What makes two failures the same, although their messages name different things."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LONGEST: Final = 500
# What differs between two failures of the same cause: ids, addresses, numbers.
_VARYING: Final = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|\b0x[0-9a-f]+\b"
    r"|\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b"
    r"|\d+",
    re.IGNORECASE,
)
_SPACE: Final = re.compile(r"\s+")


def fingerprint_of(kind: str, message: str) -> str:
    """Tell the fingerprint of a failure: 16 hex digits, the same in every process and version.

    Numbers, hexadecimal ids and white space in the message make no difference.
    """
    plain = _SPACE.sub(" ", _VARYING.sub("#", message[:_LONGEST])).strip()
    return hashlib.blake2b(f"{kind}\n{plain}".encode(), digest_size=8).hexdigest()
