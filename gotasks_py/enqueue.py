"""From a request to a stored task: check everything, settle the policy, insert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from gotasks_py.codec import Codec, codec_for, codec_for_value
from gotasks_py.errors import (
    ConfigurationError,
    DuplicateTaskError,
    GotasksError,
    PartialEnqueueError,
    StoreUnavailableError,
    UnknownQueueError,
)
from gotasks_py.handle import TaskHandle
from gotasks_py.handlers import OnConflict, Registry, TaskType
from gotasks_py.hooks import HookCaller, TaskEvent
from gotasks_py.lifecycle import enqueued
from gotasks_py.policy import Defaults, QueuePolicy, TaskPolicy, check_name, resolve
from gotasks_py.store import Session, Store, TaskDocument
from gotasks_py.task import Task, TaskId

CHUNK: Final = 1000
"""How many tasks of a bulk enqueue are prepared and sent at a time."""

_METADATA_LIMIT: Final = 64 * 1024
_ANYTHING: Final[Codec[Any]] = codec_for(Any)
_METADATA: Final = codec_for(dict[str, dict[str, Any]])
_NO_POLICY: Final = TaskPolicy()
_NOT_SENT: Final = "not sent: the database was away for the tasks before it"


@dataclass(frozen=True, slots=True)
class Enqueue:
    """One request to enqueue a task, as a value that can be composed and passed on."""

    queue: str
    type: str
    payload: object = None
    policy: TaskPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Turns requests into stored tasks for one manager."""

    store: Store
    queues: Mapping[str, QueuePolicy]
    registry: Registry
    defaults: Defaults
    payload_limit: int
    hooks: HookCaller
    nudge: Callable[[str, datetime | None], None]

    async def enqueue(
        self,
        request: Enqueue,
        task_type: TaskType[Any, Any] | None,
        on_conflict: OnConflict,
        session: Session | None,
    ) -> TaskHandle[Any]:
        """Store one task; see ``Manager.enqueue``."""
        if on_conflict not in {"raise", "return"}:
            msg = f"on_conflict must be 'raise' or 'return', not {on_conflict!r}"
            raise ConfigurationError(msg)
        document = self._document(request, task_type)
        try:
            await self.store.insert(document, session=session)
        except DuplicateTaskError as error:
            if on_conflict == "raise" or error.existing_id is None:
                raise
            return await self._holder(error)
        if session is None:  # whether a transaction commits is not known here
            await self._announce(document)
        return self.handle(document["_id"], request.queue, request.type, task_type)

    async def enqueue_many(self, requests: Iterable[Enqueue]) -> list[TaskHandle[Any]]:
        """Store many tasks; see ``Manager.enqueue_many``."""
        handles: list[TaskHandle[Any] | None] = []
        failures: dict[int, GotasksError] = {}
        is_away = False
        for chunk in _chunks(requests):
            start = len(handles)
            if is_away:
                failures |= {
                    start + index: StoreUnavailableError(_NOT_SENT) for index in range(len(chunk))
                }
                handles.extend([None] * len(chunk))
                continue
            handles.extend(await self._enqueue_chunk(chunk, start, failures))
            is_away = all(
                isinstance(failures.get(start + index), StoreUnavailableError)
                for index in range(len(chunk))
            )
        if failures:
            raise PartialEnqueueError(
                [None if handle is None else handle.id for handle in handles], failures
            )
        return [handle for handle in handles if handle is not None]

    def handle(
        self, task_id: TaskId, queue: str, name: str, task_type: TaskType[Any, Any] | None = None
    ) -> TaskHandle[Any]:
        """Make a handle for a stored task, typed where its type is known."""
        known = task_type or self._known_type(queue, name)
        codec = _ANYTHING if known is None else known.result_codec
        return TaskHandle(task_id, queue, name, self.store, codec)

    async def _enqueue_chunk(
        self, chunk: Sequence[Enqueue], start: int, failures: dict[int, GotasksError]
    ) -> list[TaskHandle[Any] | None]:
        documents: dict[int, TaskDocument] = {}
        for index, request in enumerate(chunk):
            try:
                documents[index] = self._document(request, None)
            except GotasksError as error:
                failures[start + index] = error
        indexes = list(documents)
        refused = await self.store.insert_many(list(documents.values()))
        for position, reason in refused.items():
            failures[start + indexes[position]] = reason
            del documents[indexes[position]]
        for document in documents.values():
            await self._announce(document)
        return [
            self.handle(documents[index]["_id"], request.queue, request.type)
            if index in documents
            else None
            for index, request in enumerate(chunk)
        ]

    def _document(self, request: Enqueue, task_type: TaskType[Any, Any] | None) -> TaskDocument:
        _check_request(request)
        queue = self.queues.get(request.queue)
        if queue is None:
            raise UnknownQueueError(request.queue, list(self.queues))
        policy = request.policy or _NO_POLICY
        known = task_type or self._known_type(request.queue, request.type)
        codec = codec_for_value(request.payload) if known is None else known.payload_codec
        now = self.store.clock.now()
        fields = {
            "_id": self.store.new_id(),
            "queue": request.queue,
            "type": request.type,
            "payload": codec.encode(request.payload, limit=self.payload_limit),
            **resolve(policy, queue, self.defaults, now),
        }
        if policy.metadata:
            encoded = _METADATA.encode(
                {"metadata": policy.metadata}, limit=_METADATA_LIMIT, what="metadata"
            )
            fields["metadata"] = encoded["metadata"]
        return enqueued(fields, now=now)

    def _known_type(self, queue: str, name: str) -> TaskType[Any, Any] | None:
        handler = self.registry.find(queue, name)
        return None if handler is None else handler.task_type

    async def _holder(self, error: DuplicateTaskError) -> TaskHandle[Any]:
        """Make a handle for the task that holds the key, which may be of another type."""
        task = await self.store.get(error.existing_id)
        if task is None:
            raise error
        return self.handle(task.id, task.queue, task.type)

    async def _announce(self, document: TaskDocument) -> None:
        due_at = document["due_at"]
        self.nudge(str(document["queue"]), due_at if isinstance(due_at, datetime) else None)
        # Reading the task back takes longer than encoding its payload did.
        if self.hooks.has("on_enqueue"):
            await self.hooks.call_apart("on_enqueue", TaskEvent(task=Task.from_document(document)))


def _check_request(request: object) -> None:
    if not isinstance(request, Enqueue):
        msg = f"a request must be an Enqueue(queue, type, payload, policy), not {request!r}"
        raise ConfigurationError(msg)
    check_name("queue", request.queue)
    check_name("type", request.type)
    _check_policy(request.policy)


def _check_policy(policy: object) -> None:
    if policy is not None and not isinstance(policy, TaskPolicy):
        msg = f"a policy must be a TaskPolicy(...), not {policy!r}"
        raise ConfigurationError(msg)


def _chunks(requests: Iterable[Enqueue]) -> Iterator[list[Enqueue]]:
    iterator = iter(requests)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
