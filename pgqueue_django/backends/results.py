"""Jobs as task results: reading rows, and finding the tasks that they name."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pgqueue_django.compat import AnyTask, TaskResultDoesNotExist
from pgqueue_django.exceptions import UnknownTask
from pgqueue_django.registry import registry
from pgqueue_django.results import STATUSES, JobResult, task_errors, worker_ids
from pgqueue_django.states import State
from pgqueue_django.tasks import QueueTask, as_stored, unchecked_task

if TYPE_CHECKING:
    from pgqueue_django.models import Job

Limits = tuple[int, float | None]
"""Attempts and seconds that a job of a task gets where its call does not say."""

_ID: Final = re.compile(r"[1-9][0-9]{0,18}")
_ID_MAX: Final = 2**63 - 1
_ID_SHOWN: Final = 40


def parse_id(result_id: object) -> int:
    """Return the key of the job that a result is of.

    Raises:
        TaskResultDoesNotExist: No job can have that id.
    """
    if not isinstance(result_id, str):
        raise TaskResultDoesNotExist(f"an id is a str, not {type(result_id).__name__}")
    if _ID.fullmatch(result_id) and int(result_id) <= _ID_MAX:
        return int(result_id)
    raise TaskResultDoesNotExist(result_id[:_ID_SHOWN])


def result_of(
    job: "Job", alias: str, limits_of: Callable[[AnyTask], Limits]
) -> JobResult[Any]:
    """Return a stored job as a task result.

    Args:
        job: A row with all its columns.
        alias: The backend that it was read by.
        limits_of: What a task's jobs get by default, to tell what its call asked for.
    """
    errors = [each for each in job.errors if isinstance(each, dict)]
    result: JobResult[Any] = JobResult(
        task=_task_of(job, alias, limits_of),
        id=str(job.pk),
        status=STATUSES[job.state],
        enqueued_at=job.enqueued_at,
        started_at=job.first_claimed_at,
        last_attempted_at=job.claimed_at,
        finished_at=job.finished_at,
        args=job.args,
        kwargs=job.kwargs,
        backend=alias,
        errors=task_errors(job.state, errors),
        worker_ids=worker_ids(job.attempts, job.worker, errors),
        metadata=job.metadata if isinstance(job.metadata, dict) else {},
    )
    if job.state == State.SUCCEEDED:
        object.__setattr__(result, "_return_value", job.result)
    return result


def _task_of(job: "Job", alias: str, limits_of: Callable[[AnyTask], Limits]) -> AnyTask:
    declared = registry.declared(job.task) or _gone(job.task)
    changes: dict[str, object] = {
        "backend": alias,
        "queue_name": job.queue,
        "priority": job.priority,
        "run_after": _run_after(job),
    }
    if isinstance(declared, QueueTask):
        max_attempts, timeout = limits_of(declared)
        changes["idempotency_key"] = job.idempotency_key
        changes["unique_key"] = job.unique_key
        if job.max_attempts != max_attempts:
            changes["max_attempts"] = job.max_attempts
        if job.timeout_seconds != timeout:
            changes["timeout"] = job.timeout_seconds
    return as_stored(declared, **changes)


def _run_after(job: "Job") -> datetime | None:
    # Later on, run_at is the time of the next attempt.
    asked_for = job.attempts == 0 and job.run_at != job.enqueued_at
    return job.run_at if asked_for else None


def _gone(name: str) -> QueueTask[..., Any]:
    """Stand in for a task that no longer exists, so that its results can be read."""

    def gone(*_: object, **__: object) -> None:
        raise UnknownTask(f"No task is registered as {name!r}.")

    gone.__module__, _, gone.__qualname__ = name.rpartition(".")
    return unchecked_task(func=gone, registered_name=name)
