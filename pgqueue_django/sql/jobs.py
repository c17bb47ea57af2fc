"""Statements on ``pgqueue_job`` that anybody may send; the habits of all of them.

Those of producers are in ``producing``, those of workers in ``holding``.

Each comment gives Params (with units) · Rows · Locks · Index · why.

Five habits keep them fast and safe whatever the planner knows:

- State names are literals, so that the partial indexes match.
- Rows to change are locked first, in a MATERIALIZED set, with SKIP LOCKED, so that
  LIMIT means LIMIT. What a person asks for by id (cancel, requeue) waits for them
  instead, in the order of ids. So no two statements deadlock.
- The change then finds its rows by ``id = ANY(array)``, which is planned as a look-up
  by key even in a generic plan.
- A bound is written ``LIMIT (SELECT n)``, which the planner cannot look into. It then
  reads the index in its order, where a bound above its guess of the rows would make it
  fetch them all and sort them: wrong at once where the guess is.
- ``statement_timestamp()`` is the clock: the database's, and it moves on inside a long
  transaction.
"""

from typing import Final, LiteralString

from pgqueue_django.sql import _parts
from pgqueue_django.sql.counters import counted

# --- promote --------------------------------------------------------------------------

# Params: limit. Rows: queue and how many became due there. Locks: the rows, skipping
# locked ones. Index: due.
PROMOTE: Final[LiteralString] = """
WITH due AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE state = 'scheduled' AND run_at <= statement_timestamp()
    ORDER BY run_at
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
), promoted AS (
    UPDATE pgqueue_job
    SET state = 'queued'
    WHERE id = ANY(ARRAY(SELECT id FROM due))
    RETURNING queue
)
SELECT queue, count(*) FROM promoted GROUP BY queue
"""

# PROMOTE as a transaction of its own, whose commit nobody waits for: what a crash takes
# away is promoted again. A claim of the same job is flushed with all before it.
PROMOTE_ALONE: Final[LiteralString] = PROMOTE.replace(
    "SELECT queue, count(*)",
    "SELECT queue, count(*), set_config('synchronous_commit', 'off', true)",
)

# Rows: seconds until the next scheduled job is due (negative: overdue), NULL if none.
# Locks: none. Index: due, its first entry.
NEXT_DUE: Final[LiteralString] = """
SELECT extract(epoch FROM min(run_at) - statement_timestamp())::float8
FROM pgqueue_job
WHERE state = 'scheduled'
"""

# --- lost leases, cancel, requeue -----------------------------------------------------

# Rows: seconds until the first lease ends (negative: it has), NULL if there is none.
# Locks: none. Index: running, which is small; all of it, but the planner need not know:
# it would rather read the table while it thinks that most jobs run.
NEXT_EXPIRY: Final[LiteralString] = """
SELECT extract(epoch FROM min(lease_expires_at) - statement_timestamp())::float8
FROM (
    SELECT lease_expires_at
    FROM pgqueue_job
    WHERE state = 'running'
    ORDER BY queue, id
    LIMIT (SELECT NULL::bigint)
) AS held
"""

# A job's first lost lease costs it nothing; then the wait doubles from 1 s to a minute,
# with half of it at random, so that a job that kills its workers does not do so in a
# tight circle.
_LOSE_LEASE: Final[LiteralString] = (
    """, ended AS (
UPDATE pgqueue_job AS job
SET state = CASE
        WHEN job.attempts >= job.max_attempts THEN 'dead'
        WHEN job.attempts = 1 THEN 'queued'
        ELSE 'scheduled'
    END,
    run_at = CASE
        WHEN job.attempts >= job.max_attempts OR job.attempts = 1 THEN job.run_at
        ELSE statement_timestamp() + make_interval(secs =>
            least(60, power(2, least(job.attempts, 10) - 2)) * (0.5 + random() / 2))
    END,
    finished_at = CASE
        WHEN job.attempts >= job.max_attempts THEN statement_timestamp()
    END,
"""
    + _parts.GIVE_LEASE_UP.lstrip()
    + _parts.REMEMBER_FAILURE
    + """
FROM (
    SELECT jsonb_build_object(
        'exception', 'pgqueue_django.exceptions.LeaseExpired',
        'message', %(reason)s::text,
        'traceback', ''
    ) AS detail
) AS held
WHERE job.id = ANY(ARRAY(SELECT id FROM lost))
RETURNING
    job.id, job.queue, job.task, job.state, job.attempts,
    job.errors -> -1 ->> 'worker' AS worker,
    date_part('epoch', statement_timestamp() - job.claimed_at) AS seconds
)"""
    + counted(
        """CASE state WHEN 'dead' THEN 'lease_expired_dead' ELSE 'lease_expired' END""",
        of="ended",
        queue="queue",
    )
    + """
SELECT id, queue, task, state, attempts, worker FROM ended
"""
)

# Params: limit, reason. Rows: id, queue, task, state, attempts, worker that lost it.
# Locks: the rows, skipping locked ones. Index: running, which is small. The row's own
# lease alone decides.
REAP: Final[LiteralString] = (
    """
WITH lost AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE state = 'running' AND lease_expires_at < statement_timestamp()
    ORDER BY queue, id
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
)"""
    + _LOSE_LEASE
)

# Params: worker (identity), reason. Rows, Locks, Index: as REAP. For a supervisor that
# has itself seen the worker's process die: nobody is left who could hold these leases.
REAP_DEAD_WORKER: Final[LiteralString] = (
    """
WITH lost AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE state = 'running' AND worker = %(worker)s
    ORDER BY queue, id
    FOR UPDATE SKIP LOCKED
)"""
    + _LOSE_LEASE
)

# Params: worker (identity), besides (ids). Rows: the queues of jobs that are back at
# their old places, with the attempt given back. Locks, Index: as REAP. For a supervisor
# that has killed the worker on account of the jobs that are left out.
RELEASE_DEAD_WORKER: Final[LiteralString] = (
    """
WITH innocent AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE state = 'running' AND worker = %(worker)s
        AND id <> ALL(%(besides)s::bigint[])
    ORDER BY queue, id
    FOR UPDATE SKIP LOCKED
)
UPDATE pgqueue_job AS job
SET state = 'queued',"""
    + _parts.GIVE_LEASE_UP
    + """
    attempts = greatest(job.attempts - 1, 0),
    worker = ''
WHERE job.id = ANY(ARRAY(SELECT id FROM innocent))
RETURNING job.queue
"""
)

# Params: ids. Rows: ids now cancelled, and whether they ran. Locks: the rows, waiting
# for each in the order of ids: a person's word must not get lost because a heartbeat
# has the row just then. Index: key.
CANCEL: Final[LiteralString] = (
    """
WITH live AS MATERIALIZED (
    SELECT id, state = 'running' AS ran
    FROM pgqueue_job
    WHERE id = ANY(%(ids)s::bigint[])
        AND state IN """
    + _parts.LIVE
    + """
    ORDER BY id
    FOR UPDATE
), ended AS (
UPDATE pgqueue_job
SET state = 'cancelled',
    lease_token = NULL,
    lease_expires_at = NULL,
    finished_at = statement_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM live))
RETURNING id, queue, task, first_claimed_at, NULL::float8 AS seconds
)"""
    + counted(
        """CASE WHEN first_claimed_at IS NULL
            THEN 'cancelled_unstarted' ELSE 'cancelled' END""",
        of="ended",
        queue="queue",
    )
    + """
SELECT id, ran FROM ended JOIN live USING (id)
"""
)

# Params: ids. Rows: those of cancelled jobs. Locks: none. Index: key. LIKE: as in
# SET_ASIDE.
CANCELLED: Final[LiteralString] = """
SELECT id
FROM pgqueue_job
WHERE id = ANY(%(ids)s::bigint[]) AND state LIKE 'cancelled'
"""

# Params: ids. Rows: id and queue of dead jobs that wait again, with all their attempts.
# Locks, Index: as CANCEL. LIKE: as in SET_ASIDE.
REQUEUE: Final[LiteralString] = (
    """
WITH dead AS MATERIALIZED (
    SELECT id, queue, unique_key
    FROM pgqueue_job
    WHERE id = ANY(%(ids)s::bigint[]) AND state LIKE 'dead'
    ORDER BY id
    FOR UPDATE
), free AS MATERIALIZED (
    SELECT id
    FROM dead
    WHERE unique_key IS NULL
    UNION ALL
    SELECT max(id)
    FROM dead
    WHERE unique_key IS NOT NULL AND NOT EXISTS (
        SELECT
        FROM pgqueue_job AS live
        WHERE live.queue = dead.queue AND live.unique_key = dead.unique_key
            AND live.state IN """
    + _parts.LIVE
    + """
    )
    GROUP BY queue, unique_key
), again AS (
UPDATE pgqueue_job
SET state = 'queued',
    run_at = statement_timestamp(),
    attempts = 0,
    worker = '',
    finished_at = NULL
WHERE id = ANY(ARRAY(SELECT id FROM free))
RETURNING id, queue, task, NULL::float8 AS seconds
)"""
    + counted("'requeued'", of="again", queue="queue")
    + """
SELECT id, queue FROM again
"""
)
