"""What a job is asked to be: checked values, ready to be stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from pgqueue_django import limits
from pgqueue_django.cleaning import (
    clean_delay,
    clean_idempotency_key,
    clean_max_attempts,
    clean_priority,
    clean_queue,
    clean_run_at,
    clean_task_name,
    clean_timeout,
    clean_unique_key,
)
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.serialization import dump_args, dump_kwargs

__all__ = [
    "JobSpec",
    "clean_delay",
    "clean_idempotency_key",
    "clean_max_attempts",
    "clean_priority",
    "clean_queue",
    "clean_run_at",
    "clean_task_name",
    "clean_timeout",
    "clean_unique_key",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """A job to enqueue. Made by ``build``; the constructor checks nothing.

    Args:
        task: The name of a task.
        args: The positional arguments, as the text of a JSON list.
        kwargs: The keyword arguments, as the text of a JSON object.
        queue: The queue that the job waits under.
        priority: Higher is claimed first.
        run_at: The earliest start in UTC, or None for the database's now and ``delay``.
        delay: Seconds from the database's now to the earliest start; 0 is at once.
        max_attempts: How many claims the job has before it is dead.
        timeout_seconds: How long one attempt may take; None is without end.
        idempotency_key: What makes a second enqueue find this job, within its queue,
            for as long as the job is kept.
        unique_key: What makes a second enqueue find this job, within its queue, until
            the job has ended.
    """

    task: str
    args: str
    kwargs: str
    queue: str
    priority: int
    run_at: datetime | None
    delay: float
    max_attempts: int
    timeout_seconds: float | None
    idempotency_key: str | None
    unique_key: str | None = None

    @property
    def has_key(self) -> bool:
        """Whether another job may have to be found in its place."""
        return self.idempotency_key is not None or self.unique_key is not None

    @classmethod
    def build(
        cls,
        *,
        task: str,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        queue: str = limits.DEFAULT_QUEUE,
        priority: int = limits.DEFAULT_PRIORITY,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS,
        timeout: float | timedelta | None = None,
        idempotency_key: str | None = None,
        unique_key: str | None = None,
    ) -> Self:
        """Check and encode everything that a job row holds, before any SQL.

        Args:
            task: The name of a task; whether it is registered is not asked.
            args: Positional arguments, as ``serialization.dump_args`` takes them.
            kwargs: Keyword arguments, as ``serialization.dump_kwargs`` takes them.
            queue: See ``clean_queue``.
            priority: See ``clean_priority``.
            run_at: See ``clean_run_at``. Not together with ``delay``.
            delay: See ``clean_delay``.
            max_attempts: See ``clean_max_attempts``.
            timeout: See ``clean_timeout``; None is without end.
            idempotency_key: See ``clean_idempotency_key``; None is without one.
            unique_key: See ``clean_unique_key``; None is without one.

        Raises:
            InvalidJobType: A value is of a wrong type; the error names its field.
            InvalidJob: A value is wrong; the error names its field.
        """
        if run_at is not None and delay is not None:
            raise InvalidJob("delay", "cannot be given together with run_at")
        return cls(
            task=clean_task_name(task),
            args=dump_args(args),
            kwargs="{}" if kwargs is None else dump_kwargs(kwargs),
            queue=clean_queue(queue),
            priority=clean_priority(priority),
            run_at=None if run_at is None else clean_run_at(run_at),
            delay=0.0 if delay is None else clean_delay(delay),
            max_attempts=clean_max_attempts(max_attempts),
            timeout_seconds=None if timeout is None else clean_timeout(timeout),
            idempotency_key=(
                None
                if idempotency_key is None
                else clean_idempotency_key(idempotency_key)
            ),
            unique_key=None if unique_key is None else clean_unique_key(unique_key),
        )
