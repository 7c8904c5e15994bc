"""From a request to a stored task: check everything, settle the policy, insert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Final

from anyio.lowlevel import checkpoint

from gotasks_py._bulk import SLICE, BulkEnqueue, Chunk, Progress
from gotasks_py._meter import Meter
from gotasks_py.checks import check_name
from gotasks_py.codec import Codec, Document, codec_for, codec_for_value
from gotasks_py.errors import (
    ConfigurationError,
    DuplicateTaskError,
    GotasksError,
    UnknownQueueError,
)
from gotasks_py.handle import TaskHandle
from gotasks_py.handlers import OnConflict, Registry, TaskType
from gotasks_py.hooks import HookCaller, TaskEvent
from gotasks_py.lanes import Lanes
from gotasks_py.lifecycle import enqueued
from gotasks_py.policy import Defaults, QueuePolicy, TaskPolicy, resolve
from gotasks_py.store import Session, Store, TaskDocument
from gotasks_py.task import Task, TaskId

_METADATA_LIMIT: Final = 64 * 1024
_ANYTHING: Final[Codec[Any]] = codec_for(Any)
_METADATA: Final = codec_for(dict[str, dict[str, Any]])
_NO_POLICY: Final = TaskPolicy()


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
    lanes: Callable[[str], Lanes]
    registry: Registry
    defaults: Defaults
    payload_limit: int
    hooks: HookCaller
    nudge: Callable[[str, datetime | None, Sequence[TaskId]], None]
    meter: Meter

    async def enqueue(
        self,
        request: Enqueue,
        task_type: TaskType[Any, Any] | None,
        on_conflict: OnConflict,
        session: Session | None,
    ) -> TaskHandle[Any]:
        """Store one task; see ``Manager.enqueue``."""
        draft = self._draft(request, task_type, self.store.clock.now())
        document = self._document(draft, self._payload(request, draft)[0])
        try:
            await self.store.insert(document, session=session)
        except DuplicateTaskError as error:
            if on_conflict == "raise" or error.existing_id is None:
                raise
            return await self._holder(error)
        if session is None:  # whether a transaction commits is not known here
            self._stored([document])
            await self._call_hooks(document)
        return self._handle(draft, document["_id"])

    def check(self, request: Enqueue, task_type: TaskType[Any, Any] | None) -> None:
        """Refuse what :meth:`enqueue` would refuse before it writes."""
        self._payload(request, self._draft(request, task_type, self.store.clock.now()))

    async def sound(self, requests: Iterable[Enqueue]) -> tuple[bool, Iterable[Enqueue]]:
        """Tell whether one of the requests would be stored; return all of them, unread."""
        rest, seen = iter(requests), list[Enqueue]()
        for request in rest:
            seen.append(request)
            try:
                self.check(request, None)
            except GotasksError:
                if not len(seen) % SLICE:
                    await checkpoint()
            else:
                return True, chain(seen, rest)
        return False, seen

    async def enqueue_many(
        self, requests: Iterable[Enqueue], progress: Progress | None
    ) -> list[TaskHandle[Any]]:
        """Store many tasks; see ``Manager.enqueue_many``."""
        bulk = BulkEnqueue(
            self.store,
            prepare=self._prepare,
            stored=self._stored,
            announce=self._call_hooks if self.hooks.has("on_enqueue") else None,
            progress=progress,
        )
        return await bulk.run(requests)

    def handle(self, task_id: TaskId, queue: str, name: str) -> TaskHandle[Any]:
        """Make a handle for a stored task, typed where its type is known."""
        known = self._known_type(queue, name)
        codec = _ANYTHING if known is None else known.result_codec
        return TaskHandle(task_id, queue, name, self.store, codec)

    def _prepare(self, requests: Sequence[Enqueue], chunk: Chunk) -> None:
        """Prepare requests that came together; what they have in common is settled once."""
        drafts: dict[tuple[str, str, int], _Draft] = {}
        now = self.store.clock.now()
        for request in requests:
            try:
                draft = self._shared_draft(request, now, drafts)
                payload, size = self._payload(request, draft)
            except GotasksError as error:
                chunk.fail(error)
                continue
            document = self._document(draft, payload)
            chunk.add(document, self._handle(draft, document["_id"]), size)

    def _shared_draft(
        self, request: Enqueue, now: datetime, drafts: dict[tuple[str, str, int], _Draft]
    ) -> _Draft:
        _check_kind(request)
        key = (request.queue, request.type, id(request.policy))
        try:
            draft = drafts.get(key)
        except TypeError:  # a name that cannot be hashed is none, and will be refused
            draft = None
        if draft is None:
            draft = drafts[key] = self._draft(request, None, now)
        return draft

    def _draft(
        self, request: Enqueue, task_type: TaskType[Any, Any] | None, now: datetime
    ) -> _Draft:
        """Settle all of a task but its id and its payload."""
        _check_request(request)
        queue = self.queues.get(request.queue)
        if queue is None:
            raise UnknownQueueError(request.queue, list(self.queues))
        policy = request.policy or _NO_POLICY
        fields = {
            "queue": request.queue,
            "type": request.type,
            **resolve(policy, queue, self.defaults, now),
        }
        if policy.metadata:
            encoded = _METADATA.encode(
                {"metadata": policy.metadata}, limit=_METADATA_LIMIT, what="metadata"
            )
            fields["metadata"] = encoded["metadata"]
        known = task_type or self._known_type(request.queue, request.type)
        return _Draft(
            request.queue,
            request.type,
            None if known is None else known.payload_codec,
            _ANYTHING if known is None else known.result_codec,
            enqueued(fields, now=now),
            partial(self.lanes(request.queue).lane_for, policy.unique_key),
        )

    def _payload(self, request: Enqueue, draft: _Draft) -> tuple[Document, int]:
        codec = draft.payload_codec or codec_for_value(request.payload)
        return codec.encode_sized(request.payload, limit=self.payload_limit)

    def _document(self, draft: _Draft, payload: Document) -> TaskDocument:
        task_id, lane = self.store.new_id(), draft.choose_lane()
        document: TaskDocument = {"_id": task_id, **draft.fields, "lane": lane, "payload": payload}
        if carried := self.hooks.carried(draft.queue, draft.type):
            document["trace"] = carried
        return document

    def _handle(self, draft: _Draft, task_id: TaskId) -> TaskHandle[Any]:
        return TaskHandle(task_id, draft.queue, draft.type, self.store, draft.result_codec)

    def _known_type(self, queue: str, name: str) -> TaskType[Any, Any] | None:
        handler = self.registry.find(queue, name)
        return None if handler is None else handler.task_type

    async def _holder(self, error: DuplicateTaskError) -> TaskHandle[Any]:
        """Make a handle for the task that holds the key, which may be of another type."""
        task = await self.store.get(error.existing_id)
        if task is None:
            raise error
        return self.handle(task.id, task.queue, task.type)

    def _stored(self, documents: Iterable[TaskDocument]) -> None:
        self.meter.enqueued(documents)
        self._nudge_for(documents)

    def _nudge_for(self, documents: Iterable[TaskDocument]) -> None:
        ids: dict[tuple[object, object], list[TaskId]] = {}
        for each in documents:
            ids.setdefault((each["queue"], each["due_at"]), []).append(each["_id"])
        for (queue, due_at), group in ids.items():
            self.nudge(str(queue), due_at if isinstance(due_at, datetime) else None, group)

    async def _call_hooks(self, document: TaskDocument) -> None:
        # Reading the task back takes longer than encoding its payload did.
        if self.hooks.has("on_enqueue"):
            await self.hooks.call_apart("on_enqueue", TaskEvent(task=Task.from_document(document)))


@dataclass(frozen=True, slots=True)
class _Draft:
    """What tasks of one type and policy have in common, when they are enqueued together."""

    queue: str
    type: str
    payload_codec: Codec[Any] | None
    result_codec: Codec[Any]
    fields: TaskDocument
    choose_lane: Callable[[], int]


def check_on_conflict(value: object) -> None:
    """Refuse what says neither what to raise nor what to return.

    Raises:
        ConfigurationError: otherwise.
    """
    if not isinstance(value, str) or value not in {"raise", "return"}:
        msg = f"on_conflict must be 'raise' or 'return', not {value!r}"
        raise ConfigurationError(msg)


def _check_kind(request: object) -> None:
    if not isinstance(request, Enqueue):
        msg = f"a request must be an Enqueue(queue, type, payload, policy), not {request!r}"
        raise ConfigurationError(msg)


def _check_request(request: Enqueue) -> None:
    _check_kind(request)
    check_name("queue", request.queue)
    check_name("type", request.type)
    _check_policy(request.policy)


def _check_policy(policy: object) -> None:
    if policy is not None and not isinstance(policy, TaskPolicy):
        msg = f"a policy must be a TaskPolicy(...), not {policy!r}"
        raise ConfigurationError(msg)
