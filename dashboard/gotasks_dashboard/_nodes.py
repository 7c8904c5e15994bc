"""The route that tells which managers are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from typing_extensions import TypedDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Nothing
from gotasks_dashboard._query import written
from gotasks_dashboard._values import moment
from gotasks_py import Controlling, Node, NodeOrder


class ServedView(TypedDict):
    """The types of a queue that a manager has handlers for."""

    queue: str
    types: Sequence[str]


class NodeView(TypedDict):
    """One running manager."""

    id: str
    host: str
    pid: int
    version: str
    queues: Sequence[str]
    types: Sequence[ServedView]
    capacity: int
    running: int
    loop_lag_seconds: float
    rss_bytes: int
    started_at: str
    beat_at: str
    expires_at: str
    order: str | None
    query: str


class NodesListView(TypedDict):
    """The managers that are there."""

    at: str
    nodes: Sequence[NodeView]


async def nodes(desk: Desk, call: Call[Nothing, Nothing]) -> NodesListView:
    """Tell which managers are there."""
    del call
    store = desk.store

    async def ask() -> NodesListView:
        orders = await store.node_orders() if isinstance(store, Controlling) else {}
        found = await desk.metering.nodes() if desk.metering else ()
        return {
            "at": moment(store.clock.now()) or "",
            "nodes": [_view(each, orders.get(each.id)) for each in found],
        }

    return await desk.shared("nodes view", ask)


def _view(node: Node, order: NodeOrder | None) -> NodeView:
    return {
        "id": node.id,
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "queues": list(node.queues),
        "types": [{"queue": queue, "types": list(names)} for queue, names in node.types.items()],
        "capacity": node.capacity,
        "running": node.running,
        "loop_lag_seconds": node.loop_lag.total_seconds(),
        "rss_bytes": node.rss_bytes,
        "started_at": moment(node.started_at) or "",
        "beat_at": moment(node.beat_at) or "",
        "expires_at": moment(node.expires_at) or "",
        "order": None if order is None else order.value,
        "query": written(worker=node.id),
    }


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="nodes",
        summary="The managers that are there",
        handle=nodes,
        answer=NodesListView,
    ),
)
