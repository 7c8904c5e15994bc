"""The managers that run somewhere, as they say of themselves; and who leads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from gotasks_py._fields import milliseconds, moment, text, texts, whole
from gotasks_py.task import EPOCH

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One running manager, as of its last beat.

    ``id`` is the manager's, which also begins the owner of every lease that it holds.
    """

    id: str
    host: str
    pid: int
    version: str
    queues: Sequence[str] = ()
    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The types that it has handlers for, by queue that it works on."""
    workers: Mapping[str, int] = field(default_factory=dict)
    """How many tasks of each of these queues it can run at once; queues may share workers."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """The share of each of these queues among those that share workers."""
    capacity: int = 0
    """How many tasks it can run at once."""
    running: int = 0
    """How many tasks it is running."""
    loop_lag: timedelta = timedelta(0)
    """How late its event loop was to wake up for the beat."""
    rss_bytes: int = 0
    """The memory of its process; zero where that cannot be told."""
    started_at: datetime = EPOCH
    beat_at: datetime = EPOCH
    """When it was last heard of, by the store's clock."""
    expires_at: datetime = EPOCH
    """When it counts as gone, unless it is heard of again."""

    def to_document(self) -> dict[str, object]:
        """Make what is stored; the times of the beat are the store's to add."""
        return {
            "_id": {"kind": "node", "node": self.id},
            "kind": "node",
            "node": self.id,
            "host": self.host,
            "pid": self.pid,
            "version": self.version,
            "queues": list(self.queues),
            # Pairs, for a name may be of any shape and a field's may not.
            "types": [
                {
                    "queue": queue,
                    "types": list(names),
                    **{
                        field: values[queue]
                        for field, values in (("workers", self.workers), ("weight", self.weights))
                        if queue in values
                    },
                }
                for queue, names in self.types.items()
            ],
            "capacity": self.capacity,
            "running": self.running,
            "loop_lag_ms": self.loop_lag / _MILLISECOND,
            "rss_bytes": self.rss_bytes,
            "started_at": self.started_at,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Node:
        """Read what is stored; a field of the wrong kind reads as absent."""
        queues = _by_queue(document.get("types"))
        return cls(
            id=text(document.get("node")),
            host=text(document.get("host")),
            pid=whole(document.get("pid")),
            version=text(document.get("version")),
            queues=texts(document.get("queues")),
            types={queue: texts(each.get("types")) for queue, each in queues.items()},
            workers=_numbers(queues, "workers"),
            weights=_numbers(queues, "weight"),
            capacity=whole(document.get("capacity")),
            running=whole(document.get("running")),
            loop_lag=milliseconds(document.get("loop_lag_ms")),
            rss_bytes=whole(document.get("rss_bytes")),
            started_at=moment(document.get("started_at")),
            beat_at=moment(document.get("beat_at")),
            expires_at=moment(document.get("expires_at")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSight:
    """When the first manager of a version had started."""

    version: str
    at: datetime

    @classmethod
    def of(cls, node: Node) -> FirstSight:
        """Tell what a manager would be the first sight of."""
        return cls(version=node.version, at=node.started_at)

    def to_document(self) -> dict[str, object]:
        """Make what is stored, if nothing of the version is."""
        identity = {"kind": "version", "version": self.version}
        return {"_id": identity, **identity, "window_start": self.at}

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> FirstSight:
        """Read what is stored; a field of the wrong kind reads as absent."""
        return cls(version=text(document.get("version")), at=moment(document.get("window_start")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """A wish to lead a duty for some time; whoever leads has to say so again and again."""

    duty: str
    node: str
    lease: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads a duty. ``term`` grows with each change of hands, so it fences old leaders."""

    duty: str
    node: str
    term: int
    until: datetime

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Leadership:
        """Read what is stored; a field of the wrong kind reads as absent."""
        return cls(
            duty=text(document.get("duty")),
            node=text(document.get("node")),
            term=whole(document.get("term")),
            until=moment(document.get("until")),
        )


def _by_queue(value: object) -> Mapping[str, Mapping[str, object]]:
    if not isinstance(value, list):
        return {}
    return {text(each.get("queue")): each for each in value if isinstance(each, dict)}


def _numbers(queues: Mapping[str, Mapping[str, object]], name: str) -> Mapping[str, int]:
    return {queue: whole(each[name]) for queue, each in queues.items() if name in each}
