"""One job as it is shown: every text bounded, every value readable."""

from typing import Final, Literal, NamedTuple

from pgqueue_django import limits
from pgqueue_django.db import Session
from pgqueue_django.sql import job_details as sql

JsonField = Literal["args", "kwargs", "result", "errors", "metadata"]
"""A column of JSON, which may hold anything of any size."""

# What the queue writes is shorter in bytes; raw SQL can have written anything.
_MESSAGE_CHARS: Final = limits.ERROR_MESSAGE_BYTES
_TRACEBACK_CHARS: Final = limits.ERROR_TRACEBACK_BYTES


class JobDetails(NamedTuple):
    """A job as programs see it. Instants are ISO 8601 in UTC.

    ``error_attempt`` and what follows are of the newest error. ``result`` is JSON
    text; it is None where there is none, and where ``result_bytes`` is more than
    ``limits.RESULT_BYTES``. ``metadata`` is JSON text; None where there is none, or
    where raw SQL has stored more than ``limits.METADATA_BYTES``.
    """

    id: int
    task: str
    queue: str
    state: str
    priority: int
    attempts: int
    max_attempts: int
    idempotency_key: str | None
    unique_key: str | None
    run_at: str
    enqueued_at: str
    first_claimed_at: str | None
    claimed_at: str | None
    finished_at: str | None
    has_error: bool
    error_attempt: str | None
    error_at: str | None
    error_exception: str | None
    error_message: str | None
    result_bytes: int | None
    result: str | None
    metadata: str | None


class AttemptError(NamedTuple):
    """What went wrong in one attempt. None where the entry does not say."""

    attempt: str | None
    at: str | None
    worker: str | None
    exception: str | None
    message: str | None
    traceback: str | None


class Slice(NamedTuple):
    """A part of a field's JSON text, and how many bytes the whole has."""

    text: str
    whole_bytes: int


def describe(session: Session, id_: int) -> JobDetails | None:
    """Return a job, or None when there is none of that id."""
    values = {
        "id": id_,
        "chars": _MESSAGE_CHARS,
        "result_bytes": limits.RESULT_BYTES,
        "metadata_bytes": limits.METADATA_BYTES,
    }
    rows = session.rows(sql.DESCRIBE, values)
    return JobDetails(*rows[0]) if rows else None


def newest_errors(
    session: Session, id_: int, limit: int = limits.ERRORS_KEPT
) -> list[AttemptError]:
    """Return a job's errors, newest first; empty also when there is no such job."""
    values = {
        "id": id_,
        "limit": limit,
        "chars": _MESSAGE_CHARS,
        "traceback_chars": _TRACEBACK_CHARS,
    }
    return [AttemptError(*row) for row in session.rows(sql.ERRORS, values)]


def slice_of(
    session: Session, id_: int, field: JsonField, *, start: int = 0, chars: int
) -> Slice | None:
    """Return a part of a field's JSON text.

    Args:
        session: Where to ask.
        id_: The job.
        field: The column.
        start: How many characters to leave out.
        chars: Most characters to return.

    Returns:
        The part, "" beyond the end; None when the field is NULL or there is no job.
    """
    values = {"id": id_, "field": field, "start": start + 1, "chars": chars}
    rows = session.rows(sql.SLICE, values)
    return Slice(*rows[0]) if rows and rows[0][0] is not None else None
