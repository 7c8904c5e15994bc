"""What a store may offer beside: to find what is wrong with its server and its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSize:
    """How large one of the store's collections is: in documents, in memory and on disk."""

    name: str
    documents: int
    bytes: int
    storage_bytes: int
    index_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUse:
    """How large an index is, and how often it has been used since the server has started."""

    collection: str
    name: str
    keys: Sequence[tuple[str, int]]
    bytes: int
    uses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """Whether a query of the store is served by its index, in order."""

    query: str
    index: str
    is_served: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OplogState:
    """How far back the log of changes reaches, and how full it is, from 0 to 1."""

    window: timedelta
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What a store stands on, in numbers; what the database user may not read is absent."""

    collections: Sequence[CollectionSize] = ()
    indexes: Sequence[IndexUse] = ()
    plans: Sequence[PlanCheck] = ()
    oplog: OplogState | None = None


@runtime_checkable
class Measuring(Protocol):
    """What a store may offer beside: to tell how large it is, and how it is served."""

    async def measure(self) -> Measurements:
        """Measure the collections, their indexes, the plans of queries and the log.

        Raises:
            StoreUnavailableError: the database did not answer.
        """
        ...


@runtime_checkable
class Diagnosing(Protocol):
    """Looks at what the store stands on. Changes nothing, and need not be open."""

    async def diagnose(self) -> Sequence[Finding]:
        """Do every check; those that the database user may not do are findings too.

        Raises:
            StoreUnavailableError: the database did not answer.
        """
        ...
