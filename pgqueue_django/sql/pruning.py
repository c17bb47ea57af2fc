"""Statements on ``pgqueue_job`` that find and delete finished jobs.

A group is what one queue has in one finished state, which the index keeps together in
the order of finishing: what is kept for ever is never walked through. The index is
found by its condition, that there is a time of finishing. Queue and state come from
sub-selects: the planner cannot look into them, so that no guess about a state leads it
to another index.
"""

from typing import Final, LiteralString

# Params: none. Rows: queue, state and age of its oldest job (seconds since the finish)
# of each group. Locks: none. Index: finished, one look-up a group.
FINISHED_GROUPS: Final[LiteralString] = """
WITH RECURSIVE found AS (
    (
        SELECT queue, state, finished_at
        FROM pgqueue_job
        WHERE finished_at IS NOT NULL
        ORDER BY queue, state, finished_at
        LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.state, next.finished_at
    FROM found
    CROSS JOIN LATERAL (
        SELECT queue, state, finished_at
        FROM pgqueue_job
        WHERE finished_at IS NOT NULL
            AND (queue, state) > (found.queue, found.state)
        ORDER BY queue, state, finished_at
        LIMIT 1
    ) AS next
)
SELECT
    queue, state, extract(epoch FROM statement_timestamp() - finished_at)::float8
FROM found
"""

# Params: queue, state, age (seconds since the finish), since (an instant, or NULL: look
# only at what finished then or later), limit. Rows: how many were deleted, and when the
# youngest of them finished. Locks: the rows, skipping locked ones. Index: finished.
# From an instant on: what was deleted before it may still be there as dead entries that
# a held-back vacuum cannot take away.
PRUNE: Final[LiteralString] = """
WITH old AS MATERIALIZED (
    SELECT id, finished_at
    FROM pgqueue_job
    WHERE queue = (SELECT %(queue)s::text)
        AND state = (SELECT %(state)s::text)
        AND finished_at >= (SELECT coalesce(%(since)s::timestamptz, '-infinity'))
        AND finished_at < statement_timestamp() - make_interval(secs => %(age)s::float8)
    ORDER BY finished_at
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM pgqueue_job
    WHERE id = ANY(ARRAY(SELECT id FROM old))
    RETURNING finished_at
)
SELECT count(*), max(finished_at) FROM deleted
"""

# Params: queue, state, age (seconds). Rows: how many would be deleted. Locks: none.
# Index: finished, all of what is counted.
COUNT_OLD: Final[LiteralString] = """
SELECT count(*)
FROM pgqueue_job
WHERE queue = (SELECT %(queue)s::text)
    AND state = (SELECT %(state)s::text)
    AND finished_at < statement_timestamp() - make_interval(secs => %(age)s::float8)
"""

# Params: prefix. Rows: how many sessions have an application name that begins so.
# Locks: none. One that runs as another role may be hidden from this one.
COUNT_SESSIONS: Final[LiteralString] = """
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, %(prefix)s)
"""
