"""Typed background tasks on MongoDB that survive crashes."""

from gotasks_py._bulk_operations import BulkReport
from gotasks_py._janitor import JanitorConfig
from gotasks_py._operations import RequeueReport
from gotasks_py._scheduling import QueueOrder
from gotasks_py.auditing import AuditEntry, Auditing, AuditPage, Outcome
from gotasks_py.backoff import Backoff, Exponential, Fibonacci, Fixed, Linear
from gotasks_py.context import TaskContext
from gotasks_py.controls import Controlling, NodeOrder, Pause, QueueChanges
from gotasks_py.diagnosis import Diagnosing, Finding, Measurements, Measuring, Severity
from gotasks_py.enqueue import Enqueue
from gotasks_py.errors import (
    ConfigurationError,
    DuplicateTaskError,
    EnqueueError,
    GotasksError,
    HandlerError,
    InvalidStateError,
    LeaseLostError,
    PartialEnqueueError,
    PayloadError,
    PayloadTooLargeError,
    QueueConflictError,
    Reject,
    ResultTimeoutError,
    Retry,
    Snooze,
    StoreError,
    StorePermissionError,
    StoreUnavailableError,
    TaskCancelledError,
    TaskFailedError,
    TaskNotFoundError,
    TaskSignal,
    UnknownQueueError,
)
from gotasks_py.explaining import Explanation, Reason
from gotasks_py.handle import TaskHandle
from gotasks_py.handlers import Handler, TaskType
from gotasks_py.health import Health, LoopHealth, PoolHealth
from gotasks_py.hooks import Hook, Hooks, Middleware, TaskEvent, Tracing
from gotasks_py.inspecting import (
    Count,
    DeadGroup,
    DeadPage,
    Inspecting,
    QueueOverview,
    Tagging,
    TaskFilter,
    TaskPage,
)
from gotasks_py.manager import Manager
from gotasks_py.metering import Metering
from gotasks_py.metrics import Activity, Counters, Gauges, Metrics, MetricsConfig, Window
from gotasks_py.modes import PipelineMode
from gotasks_py.nodes import Leadership, Node
from gotasks_py.policy import QueuePolicy, TaskPolicy
from gotasks_py.sketch import LatencySketch
from gotasks_py.store import Session, Store
from gotasks_py.sweeping import Sweeping, Swept
from gotasks_py.sync import SyncManager, SyncTaskHandle
from gotasks_py.task import AttemptError, Lease, Status, Task, TaskId

__all__ = [
    "Activity",
    "AttemptError",
    "AuditEntry",
    "AuditPage",
    "Auditing",
    "Backoff",
    "BulkReport",
    "ConfigurationError",
    "Controlling",
    "Count",
    "Counters",
    "DeadGroup",
    "DeadPage",
    "Diagnosing",
    "DuplicateTaskError",
    "Enqueue",
    "EnqueueError",
    "Explanation",
    "Exponential",
    "Fibonacci",
    "Finding",
    "Fixed",
    "Gauges",
    "GotasksError",
    "Handler",
    "HandlerError",
    "Health",
    "Hook",
    "Hooks",
    "Inspecting",
    "InvalidStateError",
    "JanitorConfig",
    "LatencySketch",
    "Leadership",
    "Lease",
    "LeaseLostError",
    "Linear",
    "LoopHealth",
    "Manager",
    "Measurements",
    "Measuring",
    "Metering",
    "Metrics",
    "MetricsConfig",
    "Middleware",
    "Node",
    "NodeOrder",
    "Outcome",
    "PartialEnqueueError",
    "Pause",
    "PayloadError",
    "PayloadTooLargeError",
    "PipelineMode",
    "PoolHealth",
    "QueueChanges",
    "QueueConflictError",
    "QueueOrder",
    "QueueOverview",
    "QueuePolicy",
    "Reason",
    "Reject",
    "RequeueReport",
    "ResultTimeoutError",
    "Retry",
    "Session",
    "Severity",
    "Snooze",
    "Status",
    "Store",
    "StoreError",
    "StorePermissionError",
    "StoreUnavailableError",
    "Sweeping",
    "Swept",
    "SyncManager",
    "SyncTaskHandle",
    "Tagging",
    "Task",
    "TaskCancelledError",
    "TaskContext",
    "TaskEvent",
    "TaskFailedError",
    "TaskFilter",
    "TaskHandle",
    "TaskId",
    "TaskNotFoundError",
    "TaskPage",
    "TaskPolicy",
    "TaskSignal",
    "TaskType",
    "Tracing",
    "UnknownQueueError",
    "Window",
]
