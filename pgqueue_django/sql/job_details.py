"""Statements that show one job to a person or a program, whatever raw SQL put into it.

JSON columns leave the database as text and cut: Python decodes no value that the queue
itself did not check, and a huge one costs the server's memory only.
"""

from typing import Final, LiteralString

# ISO 8601 in UTC to the microsecond, the same under any TimeZone and USE_TZ.
_FORMAT: Final[LiteralString] = """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'"""

# Params: id, chars (of an error's message, at most), result_bytes and
# metadata_bytes (of their texts; a longer one is NULL). Rows: one for the job if there
# is one. Locks: none. Index: key. OFFSET 0 keeps the planner from writing a cast twice.
DESCRIBE: Final[LiteralString] = (
    """
SELECT
    job.id, job.task, job.queue, job.state, job.priority,
    job.attempts, job.max_attempts, job.idempotency_key, job.unique_key,
    to_char(job.run_at AT TIME ZONE 'UTC', """
    + _FORMAT
    + """),
    to_char(job.enqueued_at AT TIME ZONE 'UTC', """
    + _FORMAT
    + """),
    to_char(job.first_claimed_at AT TIME ZONE 'UTC', """
    + _FORMAT
    + """),
    to_char(job.claimed_at AT TIME ZONE 'UTC', """
    + _FORMAT
    + """),
    to_char(job.finished_at AT TIME ZONE 'UTC', """
    + _FORMAT
    + """),
    error.entry IS NOT NULL,
    left(error.entry ->> 'attempt', %(chars)s::integer),
    left(error.entry ->> 'at', %(chars)s::integer),
    left(error.entry ->> 'exception', %(chars)s::integer),
    left(error.entry ->> 'message', %(chars)s::integer),
    octet_length(result.value),
    CASE
        WHEN octet_length(result.value) <= %(result_bytes)s::integer THEN result.value
    END,
    CASE
        WHEN octet_length(metadata.value) <= %(metadata_bytes)s::integer
        THEN metadata.value
    END
FROM pgqueue_job AS job
CROSS JOIN LATERAL (SELECT job.errors -> -1 OFFSET 0) AS error (entry)
CROSS JOIN LATERAL (SELECT job.result::text OFFSET 0) AS result (value)
CROSS JOIN LATERAL (SELECT job.metadata::text OFFSET 0) AS metadata (value)
WHERE job.id = %(id)s::bigint
"""
)

# Params: id, limit (errors, the newest ones), chars (of a message or name, at most),
# traceback_chars. Rows: one an error, newest first. Locks: none. Index: key.
ERRORS: Final[LiteralString] = """
SELECT
    left(error.entry ->> 'attempt', %(chars)s::integer),
    left(error.entry ->> 'at', %(chars)s::integer),
    left(error.entry ->> 'worker', %(chars)s::integer),
    left(error.entry ->> 'exception', %(chars)s::integer),
    left(error.entry ->> 'message', %(chars)s::integer),
    left(error.entry ->> 'traceback', %(traceback_chars)s::integer)
FROM pgqueue_job AS job
CROSS JOIN LATERAL jsonb_array_elements(job.errors) WITH ORDINALITY
    AS error (entry, position)
WHERE job.id = %(id)s::bigint
ORDER BY error.position DESC
LIMIT %(limit)s::integer
"""

# Params: id, field (a column of JSON), start (1 is the first character),
# chars. Rows: that part of the field's text, and the bytes of the whole; NULLs where
# the field is NULL. Locks: none. Index: key.
SLICE: Final[LiteralString] = """
SELECT
    substr(field.value, %(start)s::integer, %(chars)s::integer),
    octet_length(field.value)
FROM pgqueue_job AS job
CROSS JOIN LATERAL (
    SELECT (
        CASE %(field)s::text
            WHEN 'args' THEN job.args
            WHEN 'kwargs' THEN job.kwargs
            WHEN 'result' THEN job.result
            WHEN 'errors' THEN job.errors
            WHEN 'metadata' THEN job.metadata
        END
    )::text
    OFFSET 0
) AS field (value)
WHERE job.id = %(id)s::bigint
"""
