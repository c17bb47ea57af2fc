"""Statements on ``pgqueue_job``, in the order of a job's life.

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

from pgqueue_django.sql.counters import counted

# --- enqueue --------------------------------------------------------------------------

# Params: one array a column; run_ats is NULL where delays (seconds from now) counts.
# Rows: id, enqueued_at, seconds until due, queue, idempotency_key of what was inserted;
# ids rise in the order given. Locks: the new rows; waits for an open transaction that
# has the same key. Rows go in by key, so that two batches with the same keys wait for
# each other in one order. Index: all unique ones. A taken key inserts nothing, which
# FIND_BY_KEY then explains.
ENQUEUE: Final[LiteralString] = """
INSERT INTO pgqueue_job (
    id, queue, task, args, kwargs, state, priority, run_at, enqueued_at,
    attempts, max_attempts, timeout_seconds, idempotency_key, worker, errors
)
SELECT
    given.id, given.queue, given.task, given.args::jsonb, given.kwargs::jsonb,
    CASE WHEN due.run_at <= statement_timestamp() THEN 'queued' ELSE 'scheduled' END,
    given.priority, due.run_at, statement_timestamp(),
    0, given.max_attempts, given.timeout_seconds, given.idempotency_key, '', '[]'
FROM (
    SELECT nextval(pg_get_serial_sequence('pgqueue_job', 'id')) AS id, job.*
    FROM unnest(
        %(queues)s::text[], %(tasks)s::text[], %(args)s::text[], %(kwargs)s::text[],
        %(priorities)s::smallint[], %(run_ats)s::timestamptz[], %(delays)s::float8[],
        %(max_attempts)s::integer[], %(timeouts)s::float8[],
        %(idempotency_keys)s::text[]
    ) AS job (
        queue, task, args, kwargs, priority, run_at, delay,
        max_attempts, timeout_seconds, idempotency_key
    )
) AS given
CROSS JOIN LATERAL (
    SELECT coalesce(
        given.run_at, statement_timestamp() + make_interval(secs => given.delay)
    )
) AS due (run_at)
ORDER BY given.queue, given.idempotency_key, given.id
ON CONFLICT (queue, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING
    id, enqueued_at, extract(epoch FROM run_at - statement_timestamp())::float8,
    queue, idempotency_key
"""

# ENQUEUE for one job, without the arrays' cost. Params: the columns' values.
# Rows: as ENQUEUE. Locks, Index: as ENQUEUE.
ENQUEUE_ONE: Final[LiteralString] = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at,
    attempts, max_attempts, timeout_seconds, idempotency_key, worker, errors
)
SELECT
    %(queue)s, %(task)s, %(args)s::jsonb, %(kwargs)s::jsonb,
    CASE WHEN due.run_at <= statement_timestamp() THEN 'queued' ELSE 'scheduled' END,
    %(priority)s::smallint, due.run_at, statement_timestamp(),
    0, %(max_attempts)s::integer, %(timeout)s::float8, %(idempotency_key)s, '', '[]'
FROM (
    SELECT coalesce(
        %(run_at)s::timestamptz,
        statement_timestamp() + make_interval(secs => %(delay)s::float8)
    )
) AS due (run_at)
ON CONFLICT (queue, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING
    id, enqueued_at, extract(epoch FROM run_at - statement_timestamp())::float8,
    queue, idempotency_key
"""

# Params: queue, idempotency_key; task, args, kwargs of the call that met the key.
# Rows: id, enqueued_at, whether the stored call is the same (as jsonb: 1.0 is 1, and
# the order of keys is nothing). Locks: none. Index: unique key.
FIND_BY_KEY: Final[LiteralString] = """
SELECT
    id, enqueued_at,
    task = %(task)s AND args = %(args)s::jsonb AND kwargs = %(kwargs)s::jsonb
FROM pgqueue_job
WHERE queue = %(queue)s AND idempotency_key = %(idempotency_key)s
"""

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

# Rows: seconds until the next scheduled job is due (negative: overdue), NULL if none.
# Locks: none. Index: due, its first entry.
NEXT_DUE: Final[LiteralString] = """
SELECT extract(epoch FROM min(run_at) - statement_timestamp())::float8
FROM pgqueue_job
WHERE state = 'scheduled'
"""

# --- claim ----------------------------------------------------------------------------

# Params: queues. Rows: those of them that have due jobs. Locks: none. Index: claim, one
# look-up a queue.
DUE_QUEUES: Final[LiteralString] = """
SELECT given.queue
FROM unnest((SELECT %(queues)s::text[])) AS given (queue)
CROSS JOIN LATERAL (
    SELECT id
    FROM pgqueue_job
    WHERE queue = given.queue AND state = 'queued'
    ORDER BY priority DESC, run_at, id
    LIMIT (SELECT 1)
) AS job
"""

# Params: queues, tasks. Rows: the queues in which jobs of these tasks were set aside,
# one a queue and task. Locks: none. Index: unserved, one look-up a queue and task.
UNSERVED_QUEUES: Final[LiteralString] = """
SELECT given.queue
FROM unnest((SELECT %(queues)s::text[])) AS given (queue)
CROSS JOIN unnest((SELECT %(tasks)s::text[])) AS known (task)
CROSS JOIN LATERAL (
    SELECT id
    FROM pgqueue_job
    WHERE queue = given.queue AND state = 'unserved' AND task = known.task
    ORDER BY id
    LIMIT (SELECT 1)
) AS job
"""

_CLAIM_CANDIDATES: Final[LiteralString] = """
WITH candidate AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE queue = %(queue)s AND state = 'queued'
    ORDER BY priority DESC, run_at, id
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
)"""

# From a place on, within its priority: what lies before it is claimed, and may still be
# there as dead entries that a held-back vacuum cannot take away.
_CLAIM_ON_CANDIDATES: Final[LiteralString] = """
WITH candidate AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE queue = %(queue)s AND state = 'queued'
        AND priority = %(priority)s::smallint
        AND (run_at, id) > (%(run_at)s::timestamptz, %(id)s::bigint)
    ORDER BY run_at, id
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
)"""

# Task by task, oldest first: jobs set aside have lost their place, and a sort of them
# all would cost more with each one.
_UNSERVED_CANDIDATES: Final[LiteralString] = """
WITH candidate AS MATERIALIZED (
    SELECT job.id
    FROM unnest(%(tasks)s::text[]) AS known (task)
    CROSS JOIN LATERAL (
        SELECT id
        FROM pgqueue_job
        WHERE queue = %(queue)s AND state = 'unserved' AND task = known.task
        ORDER BY id
        LIMIT (SELECT %(limit)s::bigint)
        FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT (SELECT %(limit)s::bigint)
)"""

_CLAIM_CANDIDATE_ROWS: Final[LiteralString] = (
    """, claimed AS (
    UPDATE pgqueue_job
    SET state = 'running',
        attempts = attempts + 1,
        worker = %(worker)s,
        lease_token = %(token)s::uuid,
        lease_expires_at =
            statement_timestamp() + make_interval(secs => %(lease)s::float8),
        first_claimed_at = coalesce(first_claimed_at, statement_timestamp()),
        claimed_at = statement_timestamp()
    WHERE queue = %(queue)s AND id = ANY(ARRAY(SELECT id FROM candidate))
    RETURNING id, task, args::text AS args, kwargs::text AS kwargs,
        attempts, max_attempts, timeout_seconds, priority, run_at,
        first_claimed_at = claimed_at AS is_first,
        date_part('epoch', claimed_at - greatest(enqueued_at, run_at)) AS seconds
)"""
    + counted("'started'", of="claimed", where="is_first")
    + """
SELECT id, task, args, kwargs, attempts, max_attempts, timeout_seconds, priority, run_at
FROM claimed
ORDER BY priority DESC, run_at, id
"""
)

# Params: queue, limit, worker (identity), token (uuid, new for each claim), lease
# (seconds). Rows: the claimed jobs, most urgent first. Locks: the rows, skipping locked
# ones. Index: claim, then the key.
CLAIM: Final[LiteralString] = _CLAIM_CANDIDATES + _CLAIM_CANDIDATE_ROWS

# CLAIM without the walk from the head. Params: those of CLAIM, and the place (priority,
# run_at, id) after which to begin. Rows, Locks, Index: as CLAIM.
CLAIM_ON: Final[LiteralString] = _CLAIM_ON_CANDIDATES + _CLAIM_CANDIDATE_ROWS

# CLAIM that waits for locked rows: only to measure what SKIP LOCKED saves.
CLAIM_WAITING: Final[LiteralString] = CLAIM.replace(" SKIP LOCKED", "")

# CLAIM of jobs that were set aside, by a worker that knows their tasks.
# Params: those of CLAIM, and tasks. Rows, Locks: as CLAIM. Index: unserved.
CLAIM_UNSERVED: Final[LiteralString] = _UNSERVED_CANDIDATES + _CLAIM_CANDIDATE_ROWS

# Params: queue, tasks (the known ones), depth (jobs to look at from the head).
# Rows: how many were set aside. Locks: the rows, skipping locked ones. Index: claim.
# One look at the head moves them by thousands, where claims would by their limit. LIKE
# is "=" to which no partial index applies: the second look is by key.
SET_ASIDE: Final[LiteralString] = """
WITH head AS MATERIALIZED (
    SELECT id, task
    FROM pgqueue_job
    WHERE queue = %(queue)s AND state = 'queued'
    ORDER BY priority DESC, run_at, id
    LIMIT (SELECT %(depth)s::bigint)
), unknown AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE id = ANY(ARRAY(SELECT id FROM head WHERE task <> ALL(%(tasks)s::text[])))
        AND queue = %(queue)s AND state LIKE 'queued'
    FOR UPDATE SKIP LOCKED
), aside AS (
    UPDATE pgqueue_job
    SET state = 'unserved'
    WHERE queue = %(queue)s AND id = ANY(ARRAY(SELECT id FROM unknown))
    RETURNING id
)
SELECT count(*) FROM aside
"""

# --- while a worker holds it ----------------------------------------------------------

# The fence: every write by a worker starts with it. A row whose token is another's is
# not in the set; nor is one that somebody has locked, which STILL_HELD tells apart.
# Params: queue; ids, tokens, delays (seconds), details (one JSON array), one entry a
# job. Rows: positions in the arrays, from 1. Index: key, two look-ups a job.
# The arrays come from sub-selects so that their lengths are unknown to the planner: it
# would rather read the table for a long one.
_HELD: Final[LiteralString] = """
WITH held AS MATERIALIZED (
    SELECT
        job.id, given.position, given.delay,
        (SELECT %(details)s::jsonb) -> (given.position - 1)::integer AS detail
    FROM unnest(
        (SELECT %(ids)s::bigint[]), (SELECT %(tokens)s::uuid[]),
        (SELECT %(delays)s::float8[])
    ) WITH ORDINALITY AS given (id, token, delay, position)
    CROSS JOIN LATERAL (
        SELECT id
        FROM pgqueue_job
        WHERE queue = %(queue)s AND id = given.id AND lease_token = given.token
        FOR UPDATE SKIP LOCKED
    ) AS job
)"""

_HELD_ROWS: Final[LiteralString] = """
FROM held
WHERE job.queue = %(queue)s AND job.id = held.id
RETURNING held.position
"""

# The same for what ends an attempt: it is counted, with its time since the claim.
_END: Final[LiteralString] = (
    _HELD
    + """, ended AS (
UPDATE pgqueue_job AS job
"""
)

_END_ROWS: Final[LiteralString] = """
FROM held
WHERE job.queue = %(queue)s AND job.id = held.id
RETURNING held.position, job.task,
    date_part('epoch', statement_timestamp() - job.claimed_at) AS seconds
)"""

_ENDED: Final[LiteralString] = """
SELECT position FROM ended
"""

# What a failed attempt leaves in the job's history; the oldest gives way.
_REMEMBER_FAILURE: Final[LiteralString] = """
    worker = '',
    errors = CASE WHEN jsonb_array_length(job.errors) < 20
        THEN job.errors ELSE job.errors - 0 END
        || jsonb_build_array(jsonb_build_object(
            'attempt', job.attempts, 'at', statement_timestamp(), 'worker', job.worker
        ) || held.detail)"""

_GIVE_LEASE_UP: Final[LiteralString] = """
    lease_token = NULL,
    lease_expires_at = NULL,"""

# Params: those of _HELD; lease (seconds). Rows: ids renewed. A HOT update: no index has
# the expiry.
RENEW: Final[LiteralString] = (
    _HELD
    + """
UPDATE pgqueue_job AS job
SET lease_expires_at =
    statement_timestamp() + make_interval(secs => %(lease)s::float8)"""
    + _HELD_ROWS
)

# Params: those of _HELD; details are results. Rows: ids recorded as succeeded.
ACK: Final[LiteralString] = (
    _END
    + """SET state = 'succeeded',"""
    + _GIVE_LEASE_UP
    + """
    finished_at = statement_timestamp(),
    result = held.detail"""
    + _END_ROWS
    + counted("'succeeded'", of="ended")
    + _ENDED
)

# Params: those of _HELD; delays until the next attempt; details are failures.
# Rows: ids that will run again.
RETRY: Final[LiteralString] = (
    _END
    + """SET state = CASE WHEN held.delay > 0 THEN 'scheduled' ELSE 'queued' END,"""
    + _GIVE_LEASE_UP
    + """
    run_at = statement_timestamp() + make_interval(secs => held.delay),"""
    + _REMEMBER_FAILURE
    + _END_ROWS
    + counted("'retried'", of="ended")
    + _ENDED
)

# Params: those of _HELD; details are failures. Rows: ids now dead.
FAIL: Final[LiteralString] = (
    _END
    + """SET state = 'dead',"""
    + _GIVE_LEASE_UP
    + """
    finished_at = statement_timestamp(),"""
    + _REMEMBER_FAILURE
    + _END_ROWS
    + counted("'failed'", of="ended")
    + _ENDED
)

# Params: those of _HELD; details say why. Rows: ids now cancelled, by their handlers.
CANCEL_HELD: Final[LiteralString] = FAIL.replace("'dead'", "'cancelled'").replace(
    "'failed'", "'cancelled_by_handler'"
)

# Params: those of _HELD; delays until the next look. Rows: ids put off. The attempt is
# given back.
SNOOZE: Final[LiteralString] = (
    _HELD
    + """
UPDATE pgqueue_job AS job
SET state = CASE WHEN held.delay > 0 THEN 'scheduled' ELSE 'queued' END,"""
    + _GIVE_LEASE_UP
    + """
    run_at = statement_timestamp() + make_interval(secs => held.delay),
    attempts = greatest(job.attempts - 1, 0),
    worker = ''"""
    + _HELD_ROWS
)

# Params: those of _HELD. Rows: ids back in the queue, at their old place, with the
# attempt given back.
RELEASE: Final[LiteralString] = (
    _HELD
    + """
UPDATE pgqueue_job AS job
SET state = 'queued',"""
    + _GIVE_LEASE_UP
    + """
    attempts = greatest(job.attempts - 1, 0),
    worker = ''"""
    + _HELD_ROWS
)

# Params: those of _HELD. Rows: ids set aside for a worker that knows their tasks, with
# the attempt given back.
PARK: Final[LiteralString] = RELEASE.replace("'queued'", "'unserved'")

# Params: queue, ids, tokens. Rows: positions of what the caller still holds. Locks:
# none. Index: key.
STILL_HELD: Final[LiteralString] = """
SELECT given.position
FROM unnest(
    (SELECT %(ids)s::bigint[]), (SELECT %(tokens)s::uuid[])
) WITH ORDINALITY AS given (id, token, position)
JOIN pgqueue_job AS job
    ON job.queue = %(queue)s AND job.id = given.id AND job.lease_token = given.token
"""

# Params: queue, ids, numbers (of the attempts), worker (identity). Rows: ids of jobs
# whose attempt of that number this worker has ended: the row says so, or its history
# does, or the attempt was given back. Locks: none. Index: key.
RECORDED: Final[LiteralString] = """
SELECT job.id
FROM unnest(
    (SELECT %(ids)s::bigint[]), (SELECT %(numbers)s::integer[])
) AS given (id, number)
JOIN pgqueue_job AS job ON job.queue = %(queue)s AND job.id = given.id
WHERE (
    job.attempts < given.number
    OR job.state = 'succeeded'
        AND job.attempts = given.number AND job.worker = %(worker)s
    OR EXISTS (
        SELECT FROM jsonb_array_elements(job.errors) AS error
        WHERE error->>'worker' = %(worker)s
            AND error->'attempt' = to_jsonb(given.number)
            AND error->>'exception' <> 'pgqueue_django.exceptions.LeaseExpired'
    )
)
"""

# --- by others ------------------------------------------------------------------------

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
    + _GIVE_LEASE_UP.lstrip()
    + _REMEMBER_FAILURE
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

# Params: ids. Rows: ids now cancelled. Locks: the rows, waiting for each in the order
# of ids: a person's word must not get lost because a heartbeat has the row just then.
# Index: key.
CANCEL: Final[LiteralString] = (
    """
WITH live AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE id = ANY(%(ids)s::bigint[])
        AND state IN ('scheduled', 'queued', 'unserved', 'running')
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
SELECT id FROM ended
"""
)

# Params: ids. Rows: id and queue of dead jobs that wait again, with all their attempts.
# Locks, Index: as CANCEL. LIKE: as in SET_ASIDE.
REQUEUE: Final[LiteralString] = (
    """
WITH dead AS MATERIALIZED (
    SELECT id
    FROM pgqueue_job
    WHERE id = ANY(%(ids)s::bigint[]) AND state LIKE 'dead'
    ORDER BY id
    FOR UPDATE
), again AS (
UPDATE pgqueue_job
SET state = 'queued',
    run_at = statement_timestamp(),
    attempts = 0,
    worker = '',
    finished_at = NULL
WHERE id = ANY(ARRAY(SELECT id FROM dead))
RETURNING id, queue, task, NULL::float8 AS seconds
)"""
    + counted("'requeued'", of="again", queue="queue")
    + """
SELECT id, queue FROM again
"""
)

# --- hints ----------------------------------------------------------------------------

# Params: channel, payload. Locks: the server's notification queue, at commit.
NOTIFY: Final[LiteralString] = "SELECT pg_notify(%(channel)s, %(payload)s)"

# NOTIFY as a transaction of its own, whose commit nobody waits for: what a crash takes
# away is a hint, and the flush would cost as much as the job's own commit.
NOTIFY_ALONE: Final[LiteralString] = """
SELECT
    set_config('synchronous_commit', 'off', true),
    pg_notify(%(channel)s, %(payload)s)
"""
