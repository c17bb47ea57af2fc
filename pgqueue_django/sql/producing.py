"""Statements of those who enqueue jobs. Their habits are told in ``jobs``."""

from typing import Final, LiteralString

from pgqueue_django.sql import _parts

# For jobs with keys only: the look for a conflict is a fifth of an INSERT. Of whichever
# key: no statement can name two.
_UNLESS_TAKEN: Final[LiteralString] = """
ON CONFLICT DO NOTHING"""

_ENQUEUE_ROWS: Final[LiteralString] = """
INSERT INTO pgqueue_job (
    id, queue, task, args, kwargs, state, priority, run_at, enqueued_at,
    attempts, max_attempts, timeout_seconds, idempotency_key, unique_key, worker,
    errors
)
SELECT
    given.id, given.queue, given.task, given.args, given.kwargs,
    CASE WHEN due.run_at <= statement_timestamp() THEN 'queued' ELSE 'scheduled' END,
    given.priority, due.run_at, statement_timestamp(),
    0, given.max_attempts, given.timeout_seconds, given.idempotency_key,
    given.unique_key, '', '[]'
FROM (
    SELECT
        -- A sub-select, or each row would look for the sequence anew.
        nextval((SELECT pg_get_serial_sequence('pgqueue_job', 'id')::regclass)) AS id,
        job.*
    FROM ROWS FROM (
        unnest(
            %(queues)s::text[], %(tasks)s::text[], %(priorities)s::smallint[],
            %(run_ats)s::timestamptz[], %(delays)s::float8[],
            %(max_attempts)s::integer[], %(timeouts)s::float8[],
            %(idempotency_keys)s::text[], %(unique_keys)s::text[]
        ),
        jsonb_array_elements(%(args)s::jsonb),
        jsonb_array_elements(%(kwargs)s::jsonb)
    ) AS job (
        queue, task, priority, run_at, delay, max_attempts, timeout_seconds,
        idempotency_key, unique_key, args, kwargs
    )
) AS given
CROSS JOIN LATERAL (
    SELECT coalesce(
        given.run_at, statement_timestamp() + make_interval(secs => given.delay)
    )
) AS due (run_at)"""

_ENQUEUED_ROWS: Final[LiteralString] = """
RETURNING
    id, date_part('epoch', run_at - statement_timestamp()),
    queue, idempotency_key, unique_key
"""

# Params: one array a column, args and kwargs as JSON; run_ats is NULL where delays
# (seconds from now) counts. Rows: id, seconds until due, queue, idempotency_key and
# unique_key of what was inserted; ids rise in the order given. Locks: the new rows.
# Index: all but the unique ones.
ENQUEUE: Final[LiteralString] = _ENQUEUE_ROWS + _ENQUEUED_ROWS

# ENQUEUE of jobs of which some have keys. Params, Rows: as ENQUEUE. A taken key inserts
# nothing, which FIND_BY_KEY and FIND_LIVE then explain. Locks: the new rows; waits for
# an open transaction that has the same key. Rows go in by key, so that two batches with
# the same keys wait for each other in one order, and of one unique key the first is the
# one that goes in. Index: all.
ENQUEUE_KEYED: Final[LiteralString] = (
    _ENQUEUE_ROWS
    + """
ORDER BY
    given.queue, given.unique_key,
    CASE WHEN given.unique_key IS NULL THEN given.idempotency_key END, given.id"""
    + _UNLESS_TAKEN
    + _ENQUEUED_ROWS
)

_COLUMNS_OF_ONE: Final[LiteralString] = """
    queue, task, args, kwargs, priority, max_attempts, timeout_seconds, attempts,
    worker, errors, enqueued_at"""

# Without casts, which the columns make needless: each costs a microsecond or two.
_VALUES_OF_ONE: Final[LiteralString] = """
    %(queue)s, %(task)s, %(args)s, %(kwargs)s, %(priority)s, %(max_attempts)s,
    %(timeout)s, 0, '', '[]', statement_timestamp()"""

_DUE: Final[LiteralString] = """coalesce(
        %(run_at)s::timestamptz,
        statement_timestamp() + make_interval(secs => %(delay)s::float8)
    )"""

# VALUES, and not a sub-select that names the time once: it is planned in half the time.
_ENQUEUE_ROW: Final[LiteralString] = (
    """
INSERT INTO pgqueue_job ("""
    + _COLUMNS_OF_ONE
    + """,
    idempotency_key, unique_key, run_at, state
)
VALUES ("""
    + _VALUES_OF_ONE
    + """,
    %(idempotency_key)s, %(unique_key)s, """
    + _DUE
    + """,
    CASE WHEN """
    + _DUE
    + """ <= statement_timestamp() THEN 'queued' ELSE 'scheduled' END
)"""
)

_ENQUEUED_ROW: Final[LiteralString] = """
RETURNING
    id, date_part('epoch', enqueued_at),
    date_part('epoch', run_at - statement_timestamp())
"""

# ENQUEUE for one job, without the arrays' cost. Params: the columns' values.
# Rows: id, enqueued_at (seconds since 1970, which the driver reads in a fifth of the
# time), seconds until due. Locks, Index: as ENQUEUE.
ENQUEUE_ONE: Final[LiteralString] = _ENQUEUE_ROW + _ENQUEUED_ROW

# ENQUEUE_ONE for a job without a time or a key, which most are: in less time.
# Params: as ENQUEUE_ONE. Rows: id, enqueued_at as there. Locks, Index: as
# ENQUEUE.
ENQUEUE_NOW: Final[LiteralString] = (
    """
INSERT INTO pgqueue_job ("""
    + _COLUMNS_OF_ONE
    + """, run_at, state
)
VALUES ("""
    + _VALUES_OF_ONE
    + """, statement_timestamp(), 'queued'
)
RETURNING id, date_part('epoch', enqueued_at)
"""
)

# ENQUEUE_KEYED for one job. Params, Rows: as ENQUEUE_ONE. Locks, Index: as
# ENQUEUE_KEYED.
ENQUEUE_ONE_KEYED: Final[LiteralString] = _ENQUEUE_ROW + _UNLESS_TAKEN + _ENQUEUED_ROW

# Params: queue, idempotency_key; task, args, kwargs of the call that met the key.
# Rows: id, enqueued_at as above, whether the stored call is the same (as jsonb: 1.0 is
# 1, and the order of keys is nothing). Locks: none. Index: unique key.
FIND_BY_KEY: Final[LiteralString] = """
SELECT
    id, date_part('epoch', enqueued_at),
    task = %(task)s AND args = %(args)s::jsonb AND kwargs = %(kwargs)s::jsonb
FROM pgqueue_job
WHERE queue = %(queue)s AND idempotency_key = %(idempotency_key)s
"""

# Params: queue, unique_key. Rows: id, enqueued_at as above, of the live job that has
# the key. Locks: none. Index: unique key of live jobs.
FIND_LIVE: Final[LiteralString] = (
    """
SELECT id, date_part('epoch', enqueued_at)
FROM pgqueue_job
WHERE queue = %(queue)s AND unique_key = %(unique_key)s
    AND state IN """
    + _parts.LIVE
    + """
"""
)
