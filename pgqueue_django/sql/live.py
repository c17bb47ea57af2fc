"""Statements that look at all jobs that have not finished."""

from typing import Final, LiteralString

# Params: none. Rows: queue, state, how many jobs, how many of them under a lease that
# has expired, and the age of the one that has been due for longest (seconds; NULL where
# none is due or nobody asks). Locks: none. Index: each state's own, all of it and
# nothing else: what has finished costs nothing.
LIVE: Final[LiteralString] = """
SELECT
    queue, 'queued', count(*), 0::bigint,
    extract(epoch FROM statement_timestamp() - min(run_at))::float8
FROM pgqueue_job
WHERE state = 'queued'
GROUP BY queue
UNION ALL
SELECT
    queue, 'scheduled', count(*), 0,
    extract(epoch FROM statement_timestamp()
        - min(run_at) FILTER (WHERE run_at <= statement_timestamp()))::float8
FROM pgqueue_job
WHERE state = 'scheduled'
GROUP BY queue
UNION ALL
SELECT queue, 'unserved', count(*), 0, NULL
FROM pgqueue_job
WHERE state = 'unserved'
GROUP BY queue
UNION ALL
SELECT
    queue, 'running', count(*),
    count(*) FILTER (WHERE lease_expires_at < statement_timestamp()), NULL
FROM pgqueue_job
WHERE state = 'running'
GROUP BY queue
"""
