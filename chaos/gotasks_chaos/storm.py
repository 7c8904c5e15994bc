"""Carries a plan out: each fault in its time, and its end in its time."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from gotasks_chaos.cluster import Cluster
from gotasks_chaos.ledger import Ledger
from gotasks_chaos.network import Network
from gotasks_chaos.plan import Fault
from gotasks_chaos.profiles import OF_DATABASE, OF_NETWORK, FaultKind
from gotasks_chaos.stage import Slot, Stage


class Storm:
    """Inflicts faults on what there is: processes, and where given their lines and database."""

    def __init__(
        self, ledger: Ledger, stage: Stage, network: Network | None, cluster: Cluster | None
    ) -> None:
        self._ledger = ledger
        self._stage = stage
        self._network = network
        self._cluster = cluster
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def schedule(self, plan: Sequence[Fault]) -> None:
        """Begin: the plan counts from now."""
        began = time.monotonic()
        for fault in plan:
            self._at(began + fault.at, partial(self._inflict, fault))

    def turn(self) -> None:
        """Do what is due by now."""
        while self._agenda and self._agenda[0][0] <= time.monotonic():
            heapq.heappop(self._agenda)[2]()

    def is_over(self) -> bool:
        """Whether nothing is to come, and all that was hurt is whole again."""
        return not self._agenda and not (self._cluster and self._cluster.is_busy())

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._order), action))

    def _inflict(self, fault: Fault) -> None:
        if fault.kind in OF_DATABASE:
            self._ledger.write("fault", kind=fault.kind, seconds=fault.seconds)
            if self._cluster is not None:
                self._cluster.hurt(fault.kind, fault.seconds)
            return
        slot = self._target(fault)
        self._ledger.write("fault", kind=fault.kind, process=slot.name, seconds=fault.seconds)
        if fault.kind in OF_NETWORK:
            self._spoil(slot, fault)
        else:
            self._hit(slot, fault)

    def _target(self, fault: Fault) -> Slot:
        if fault.kind in OF_NETWORK:
            slots = [*self._stage.of("worker"), *self._stage.of("producer")]
        elif fault.kind is FaultKind.KILL_PRODUCER:
            slots = self._stage.of("producer")
        else:
            slots = self._stage.of("worker")
        return slots[fault.target % len(slots)]

    def _hit(self, slot: Slot, fault: Fault) -> None:
        if not slot.is_alive:
            return
        match fault.kind:
            case FaultKind.STOP_WORKER:
                self._stage.stop(slot)
            case FaultKind.FREEZE_WORKER:
                if not slot.is_frozen:
                    self._stage.freeze(slot)
                    self._at(time.monotonic() + fault.seconds, partial(self._thaw, slot, slot.name))
            case _:
                self._stage.kill(slot)

    def _thaw(self, slot: Slot, name: str) -> None:
        if slot.name == name and slot.is_frozen:
            self._stage.thaw(slot)

    def _spoil(self, slot: Slot, fault: Fault) -> None:
        if self._network is None:
            return
        line = list(self._stage.slots).index(slot)
        self._network.spoil(line, fault.kind)
        self._at(time.monotonic() + fault.seconds, partial(self._network.mend, line))
