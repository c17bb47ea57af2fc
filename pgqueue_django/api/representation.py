"""A job as a JSON object."""

import re
from typing import Any, Final

from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.managers.job_details import JobDetails
from pgqueue_django.metadata import PROGRESS
from pgqueue_django.serialization import load_metadata, load_result

# What an attempt's number can be; raw SQL can have put anything there.
_ATTEMPT: Final = re.compile(r"[0-9]{1,9}")


def as_json(job: JobDetails) -> dict[str, Any]:
    """Return what the API shows of a job.

    Tracebacks are left to the admin: they quote the code and its values. Where raw SQL
    has stored a result that is larger or stranger than the queue itself would, it is
    null and ``result_omitted`` says why.
    """
    result, omitted = _result(job)
    metadata = _metadata(job)
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state,
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "idempotency_key": job.idempotency_key,
        "unique_key": job.unique_key,
        "run_at": job.run_at,
        "enqueued_at": job.enqueued_at,
        "started_at": job.first_claimed_at,
        "claimed_at": job.claimed_at,
        "finished_at": job.finished_at,
        "progress": metadata.get(PROGRESS),
        "metadata": {k: v for k, v in metadata.items() if k[:1] != "_"},
        "last_error": _last_error(job),
        "result": result,
        "result_omitted": omitted,
    }


def _last_error(job: JobDetails) -> dict[str, Any] | None:
    if not job.has_error:
        return None
    attempt = job.error_attempt or ""
    return {
        "attempt": int(attempt) if _ATTEMPT.fullmatch(attempt) else None,
        "at": job.error_at,
        "exception": job.error_exception,
        "message": job.error_message,
    }


def _metadata(job: JobDetails) -> dict[str, Any]:
    """Return it, or nothing where raw SQL has stored what the queue would not."""
    try:
        return load_metadata(job.metadata or "{}")
    except InvalidJob:
        return {}


def _result(job: JobDetails) -> tuple[Any, str | None]:
    if job.result_bytes is None:
        return None, None
    if job.result is None:
        return None, f"takes {job.result_bytes:,} bytes; the admin shows it"
    try:
        return load_result(job.result), None
    except InvalidJob as error:
        return None, f"{error.message}; the admin shows it"
