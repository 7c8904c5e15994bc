"""What a store may offer beside: to find what is wrong with its server and its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found, and what to do about it unless it is well."""

    severity: Severity
    check: str
    message: str
    remedy: str = ""


@runtime_checkable
class Diagnosing(Protocol):
    """Looks at what the store stands on. Changes nothing, and need not be open."""

    async def diagnose(self) -> Sequence[Finding]:
        """Do every check; those that the database user may not do are findings too.

        Raises:
            StoreUnavailableError: the database did not answer.
        """
        ...
