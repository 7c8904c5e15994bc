"""Turns the driver's errors into the library's."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from bson.errors import BSONError
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidName,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from pymongo.errors import (
    ConfigurationError as DriverConfigurationError,
)

from gotasks_py.errors import (
    ConfigurationError,
    StoreError,
    StorePermissionError,
    StoreUnavailableError,
)
from gotasks_py.task import TaskId

_PERMISSION_CODES: Final = {13, 18, 8000}  # Unauthorized, AuthenticationFailed, AtlasError
_BAD_VALUE: Final = 2
_PASSING: Final = (ConnectionFailure, ExecutionTimeout, WriteConcernError)
_PASSING_LABELS: Final = ("RetryableWriteError", "TransientTransactionError")
# A primary that steps down in the midst of a write answers with one of these for a document
# that it did not write. The driver then sees a refused document, not a server that has gone.
_PASSING_CODES: Final = {
    91,  # ShutdownInProgress
    189,  # PrimarySteppedDown
    10058,  # LegacyNotPrimary
    10107,  # NotWritablePrimary
    11600,  # InterruptedAtShutdown
    11602,  # InterruptedDueToReplStateChange
    13435,  # NotPrimaryNoSecondaryOk
    13436,  # NotPrimaryOrSecondary
    # What a member or a router cannot do just now: the driver tries a read once more, and then
    # gives up without a label. (The codes of the driver specification "Retryable Reads".)
    6,  # HostUnreachable
    7,  # HostNotFound
    89,  # NetworkTimeout
    134,  # ReadConcernMajorityNotAvailableYet
    262,  # ExceededTimeLimit
    9001,  # SocketException
}


@contextmanager
def translated(action: str, *, task_id: TaskId | None = None) -> Generator[None]:
    """Raise the library's errors for what the driver raises while doing ``action``."""
    try:
        yield
    except (InvalidURI, InvalidName, DriverConfigurationError) as error:
        msg = f"cannot {action}: {error}"
        if _is_of_dns(error.__cause__):  # mongodb+srv:// asks it for the servers
            raise StoreUnavailableError(msg, task_id=task_id) from error
        raise ConfigurationError(msg) from error
    except PyMongoError as error:
        raise failure(action, error, task_id=task_id) from error
    except BSONError as error:
        msg = f"the database could not {action}: it cannot be stored: {error}"
        raise StoreError(msg) from error
    except RuntimeError as error:
        if "event loop" not in str(error):
            raise
        # PyMongo binds a client to the loop of its first use, which may not have been ours.
        msg = f"cannot {action}: {error}; or give the store a URI instead of a client"
        raise ConfigurationError(msg) from error


def failure(action: str, error: PyMongoError, *, task_id: TaskId | None = None) -> StoreError:
    """Choose the library's error for one of the driver's."""
    if is_passing(error):
        msg = (
            f"the database did not answer, could not {action}: {_first_line(error)}; "
            "check that it runs and that the URI names it"
        )
        return StoreUnavailableError(msg, task_id=task_id)
    if isinstance(error, OperationFailure) and error.code in _PERMISSION_CODES:
        msg = (
            f"the database refused to {action}: {_first_line(error)}; check user, password and "
            "authSource, and give the user the role readWrite on this database"
        )
        return StorePermissionError(msg)
    text = _first_line(error)
    if isinstance(error, OperationFailure) and error.code == _BAD_VALUE and "hint" in text:
        text = "an index is missing; the first manager of this version that starts makes it"
    return StoreError(f"the database could not {action}: {text}")


def is_passing(error: PyMongoError) -> bool:
    """Whether trying again may succeed."""
    if isinstance(error, _PASSING) or error.timeout:
        return True
    if isinstance(error, BulkWriteError):
        # Without errors of documents it is written, but a majority has not confirmed it.
        if all(is_passing_code(each.get("code")) for each in error.details.get("writeErrors", ())):
            return True
    elif isinstance(error, OperationFailure) and is_passing_code(error.code):
        return True
    return any(error.has_error_label(label) for label in _PASSING_LABELS)


def is_passing_code(code: object) -> bool:
    """Whether a server that answered with this code may do it soon, or another in its place."""
    return code in _PASSING_CODES


def _first_line(error: PyMongoError) -> str:
    text = str(error)
    # Server selection repeats every server's state; the first clause says what happened.
    for end in (", Timeout:", ", full error:", " (configured timeouts:"):
        text = text.partition(end)[0]
    return text[:500]


def _is_of_dns(error: BaseException | None) -> bool:
    return error is not None and type(error).__module__.partition(".")[0] == "dns"
