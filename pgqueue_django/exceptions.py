"""Everything that this package raises, and what handlers may raise to steer a job.

PgQueueError
├── InvalidJob (ValueError)            a wrong value, by the name of its field
│   └── InvalidJobType (TypeError)     a value of a type that cannot be stored
├── IdempotencyConflict                the key belongs to another job
├── UnknownTask (LookupError)          no task is registered by that name
├── JobNotFound (LookupError)          no job has that id
├── JobFinished                        the job is past what was asked of it
├── InvalidSettings (ImproperlyConfigured)
├── LeaseLost                          the job is not the caller's to write of any more
├── LeaseExpired                       recorded when a worker went silent
├── AttemptTimedOut                    recorded when a handler ran too long
└── AttemptCancelled                   raised in a handler whose job was cancelled
Directive                              raised by handlers
├── Retry                              run again, as a failed attempt
├── Snooze                             run again, and give the attempt back
└── Cancel                             end as cancelled
"""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured


class PgQueueError(Exception):
    """Base of this package's errors."""


class InvalidJob(PgQueueError, ValueError):
    """A job, or a change to one, has a wrong value.

    Args:
        field: The name of what is wrong, with a path where it is inside a value
            (``kwargs.items[2].note``).
        message: What is wrong and what would be right.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class InvalidJobType(InvalidJob, TypeError):
    """A value is of a type that cannot be stored."""


class IdempotencyConflict(PgQueueError):
    """The idempotency key belongs to a job with another task or other arguments.

    Args:
        queue: The queue in which the key is taken.
        key: The key.
        job_id: The job that has it.
    """

    def __init__(self, queue: str, key: str, job_id: int) -> None:
        super().__init__(
            f"idempotency_key: {key!r} in queue {queue!r} belongs to job {job_id}, "
            "which has another task or other arguments; use a new key"
        )
        self.queue = queue
        self.key = key
        self.job_id = job_id


class UnknownTask(PgQueueError, LookupError):
    """No task is registered by that name."""


class JobNotFound(PgQueueError, LookupError):
    """No job has that id."""


class JobFinished(PgQueueError):
    """The job has finished, so what was asked of it can no longer be done."""


class InvalidSettings(PgQueueError, ImproperlyConfigured):
    """``settings.PGQUEUE`` has an unknown key or a value out of bounds."""


class LeaseLost(PgQueueError):
    """The job belongs to another worker by now, or to none: nothing was written."""


class LeaseExpired(PgQueueError):
    """A lease ended without a word from its worker: it died, stalled or was cut off."""


class AttemptTimedOut(PgQueueError):
    """A handler ran for longer than its task's timeout."""

    def __init__(self, message: str = "ran for longer than its timeout") -> None:
        super().__init__(message)


class AttemptCancelled(PgQueueError):
    """The job of a running handler was cancelled, and its task says to interrupt it."""

    def __init__(self, message: str = "its job was cancelled") -> None:
        super().__init__(message)


class Directive(Exception):
    """Base of what a handler raises to say how its job goes on."""


class Retry(Directive):
    """Count this attempt as failed and run the job again after a time.

    Args:
        after: Seconds or a timedelta; None leaves it to the task's backoff. When the
            attempts are used up the job is dead all the same.
        reason: Kept in the job's errors.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = ""
    ) -> None:
        super().__init__(reason or "retry requested")
        self.after = after


class Snooze(Directive):
    """Run the job again after a time, without using up this attempt.

    Args:
        delay: Seconds or a timedelta.
    """

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class Cancel(Directive):
    """End the job as cancelled.

    Args:
        reason: Kept in the job's errors.
    """

    def __init__(self, reason: Any = "") -> None:
        super().__init__(reason or "cancelled by its handler")
