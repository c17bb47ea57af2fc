"""A durable, at-least-once job queue for Django on one PostgreSQL table.

Names are imported when they are first used: none of them needs the apps to be loaded,
``Backoff`` and the exceptions do not even need settings, and this package loads where
the backport of django.tasks is missing, so that the system check can say so.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pgqueue_django.backoff import Backoff
    from pgqueue_django.context import JobContext
    from pgqueue_django.enqueuing import enqueue
    from pgqueue_django.exceptions import (
        AttemptCancelled,
        AttemptTimedOut,
        Cancel,
        IdempotencyConflict,
        InvalidJob,
        LeaseLost,
        PgQueueError,
        Retry,
        Snooze,
        UnknownTask,
    )
    from pgqueue_django.results import JobResult
    from pgqueue_django.tasks import task
    from pgqueue_django.worker import Worker

__version__ = "0.1.0.dev0"

_HOMES: Final = {
    "AttemptCancelled": "exceptions",
    "AttemptTimedOut": "exceptions",
    "Backoff": "backoff",
    "Cancel": "exceptions",
    "IdempotencyConflict": "exceptions",
    "InvalidJob": "exceptions",
    "JobContext": "context",
    "JobResult": "results",
    "LeaseLost": "exceptions",
    "PgQueueError": "exceptions",
    "Retry": "exceptions",
    "Snooze": "exceptions",
    "UnknownTask": "exceptions",
    "Worker": "worker",
    "enqueue": "enqueuing",
    "task": "tasks",
}

__all__ = [
    "AttemptCancelled",
    "AttemptTimedOut",
    "Backoff",
    "Cancel",
    "IdempotencyConflict",
    "InvalidJob",
    "JobContext",
    "JobResult",
    "LeaseLost",
    "PgQueueError",
    "Retry",
    "Snooze",
    "UnknownTask",
    "Worker",
    "__version__",
    "enqueue",
    "task",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
