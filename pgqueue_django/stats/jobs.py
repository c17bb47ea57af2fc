"""One job, read from where jobs are written: a replica may not have it yet."""

import re
from collections.abc import Iterator
from typing import Final

from django.db import router

from pgqueue_django.db import DjangoSession
from pgqueue_django.managers import job_details
from pgqueue_django.managers.job_details import (
    AttemptError,
    JobDetails,
    JsonField,
    Slice,
)
from pgqueue_django.models import Job

_ID: Final = re.compile(r"[1-9][0-9]{0,18}")
_ID_MAX: Final = 2**63 - 1

# One read of a long value. Each costs the server the whole of it, and Python this much.
_CHUNK_CHARS: Final = 4 * 1024 * 1024


def parse_id(text: str) -> int | None:
    """Return the job id that a text is, or None when no job can have it."""
    if not _ID.fullmatch(text):
        return None
    number = int(text)
    return number if number <= _ID_MAX else None


def database() -> str:
    """Return the alias of the database that has the jobs, by the routers."""
    return router.db_for_write(Job)


def describe(id_: int) -> JobDetails | None:
    """Return a job, or None when there is none of that id."""
    return job_details.describe(_session(), id_)


def newest_errors(id_: int) -> list[AttemptError]:
    """Return what went wrong in a job's attempts, newest first."""
    return job_details.newest_errors(_session(), id_)


def preview(id_: int, field: JsonField, chars: int) -> Slice | None:
    """Return the beginning of a field's JSON text; None when it has no value."""
    return job_details.slice_of(_session(), id_, field, chars=chars)


def whole(
    id_: int, field: JsonField, chunk_chars: int = _CHUNK_CHARS
) -> Iterator[Slice]:
    """Yield a field's JSON text in parts; nothing when it has no value."""
    start = 0
    while part := job_details.slice_of(
        _session(), id_, field, start=start, chars=chunk_chars
    ):
        yield part
        start += len(part.text)
        if len(part.text) < chunk_chars:
            return


def _session() -> DjangoSession:
    return DjangoSession(database())
