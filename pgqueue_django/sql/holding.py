"""Statements of workers: claim jobs, and write of those that are held.

Their habits are told in ``jobs``.
"""

from typing import Final, LiteralString

from pgqueue_django.sql import _parts
from pgqueue_django.sql.counters import counted

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

# One queue after the other, as far as the limit, each from its place or from its head.
_ALONG_CANDIDATES: Final[LiteralString] = """
WITH candidate AS MATERIALIZED (
    SELECT job.id
    FROM unnest(
        (SELECT %(queues)s::text[]), (SELECT %(priorities)s::smallint[]),
        (SELECT %(run_ats)s::timestamptz[]), (SELECT %(ids)s::bigint[])
    ) WITH ORDINALITY AS given (queue, priority, run_at, id, position)
    CROSS JOIN LATERAL (
        SELECT id FROM (
            SELECT id
            FROM pgqueue_job
            WHERE given.priority IS NULL
                AND queue = given.queue AND state = 'queued'
            ORDER BY priority DESC, run_at, id
            LIMIT (SELECT %(limit)s::bigint)
            FOR UPDATE SKIP LOCKED
        ) AS from_head
        UNION ALL
        SELECT id FROM (
            SELECT id
            FROM pgqueue_job
            WHERE given.priority IS NOT NULL
                AND queue = given.queue AND state = 'queued'
                AND priority = given.priority
                AND (run_at, id) > (given.run_at, given.id)
            ORDER BY run_at, id
            LIMIT (SELECT %(limit)s::bigint)
            FOR UPDATE SKIP LOCKED
        ) AS from_place
    ) AS job
    LIMIT (SELECT %(limit)s::bigint)
)"""

# A look at it in place of a walk past all jobs of other tasks, which could be as long
# as the backlog. LIKE, where its rows are looked up by key, is "=" to which no partial
# index applies.
_HEAD: Final[LiteralString] = """
WITH head AS MATERIALIZED (
    SELECT id, task
    FROM pgqueue_job
    WHERE queue = %(queue)s AND state = 'queued'
    ORDER BY priority DESC, run_at, id
    LIMIT (SELECT %(depth)s::bigint)
)"""

# One by one, as a sort would lock them all.
_TASKS_CANDIDATES: Final[LiteralString] = (
    _HEAD
    + """, candidate AS MATERIALIZED (
    SELECT job.id
    FROM head
    CROSS JOIN LATERAL (
        SELECT id
        FROM pgqueue_job
        WHERE id = head.id AND queue = %(queue)s AND state LIKE 'queued'
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE head.task = ANY(%(tasks)s::text[])
    LIMIT (SELECT %(limit)s::bigint)
)"""
)

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

_CLAIM_CANDIDATE: Final[LiteralString] = """, claimed AS (
    UPDATE pgqueue_job
    SET state = 'running',
        attempts = attempts + 1,
        worker = %(worker)s,
        lease_token = %(token)s::uuid,
        lease_expires_at =
            statement_timestamp() + make_interval(secs => %(lease)s::float8),
        first_claimed_at = coalesce(first_claimed_at, statement_timestamp()),
        claimed_at = statement_timestamp()
    WHERE """

_CLAIMED: Final[LiteralString] = (
    """id = ANY(ARRAY(SELECT id FROM candidate))
    RETURNING queue, id, lease_token::text AS token, task,
        args::text AS args, kwargs::text AS kwargs,
        attempts, max_attempts, timeout_seconds, priority, run_at,
        first_claimed_at = claimed_at AS is_first,
        date_part('epoch', claimed_at - greatest(enqueued_at, run_at)) AS seconds
)"""
    + counted("'started'", of="claimed", queue="queue", where="is_first")
    + """
SELECT
    queue, id, token, task, args, kwargs, attempts, max_attempts, timeout_seconds,
    priority, run_at::text
FROM claimed
ORDER BY priority DESC, claimed.run_at, id
"""
)

_CLAIM_ROWS: Final[LiteralString] = (
    _CLAIM_CANDIDATE + "queue = %(queue)s AND " + _CLAIMED
)

# Params: queue, limit, worker (identity), token (uuid, new for each claim), lease
# (seconds). Rows: the claimed jobs, most urgent first. Locks: the rows, skipping locked
# ones. Index: claim, then the key.
CLAIM: Final[LiteralString] = _CLAIM_CANDIDATES + _CLAIM_ROWS

# CLAIM without the walk from the head. Params: those of CLAIM, and the place (priority,
# run_at, id) after which to begin. Rows, Locks, Index: as CLAIM.
CLAIM_ON: Final[LiteralString] = _CLAIM_ON_CANDIDATES + _CLAIM_ROWS

# CLAIM of several queues in one statement, the first ones first. Params: those of CLAIM
# but queue; queues, and for each the place (priorities, run_ats, ids) after which to
# begin, NULL for its head. Rows: as CLAIM, of all queues together. Locks, Index: as
# CLAIM, one look-up a queue.
CLAIM_ALONG: Final[LiteralString] = _ALONG_CANDIDATES + _CLAIM_CANDIDATE + _CLAIMED

# CLAIM that waits for locked rows: only to measure what SKIP LOCKED saves.
CLAIM_WAITING: Final[LiteralString] = CLAIM.replace(" SKIP LOCKED", "")

# CLAIM of some tasks only. Params: those of CLAIM, tasks, and depth (jobs to look at
# from the head). Rows, Locks, Index: as CLAIM.
CLAIM_TASKS: Final[LiteralString] = _TASKS_CANDIDATES + _CLAIM_ROWS

# CLAIM of jobs that were set aside, by a worker that knows their tasks.
# Params: those of CLAIM, and tasks. Rows, Locks: as CLAIM. Index: unserved.
CLAIM_UNSERVED: Final[LiteralString] = _UNSERVED_CANDIDATES + _CLAIM_ROWS

# Params: queue, tasks (the known ones), depth (jobs to look at from the head).
# Rows: how many were set aside. Locks: the rows, skipping locked ones. Index: claim.
# One look at the head moves them by thousands, where claims would by their limit.
SET_ASIDE: Final[LiteralString] = (
    _HEAD
    + """, unknown AS MATERIALIZED (
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
)

# --- while a worker holds it ----------------------------------------------------------

# The fence: every write by a worker starts with it. A row whose token is another's is
# not in the set; nor is one that somebody has locked, which STILL_HELD tells apart.
# Params: queue; ids, tokens, delays (seconds), details (one JSON array), one entry a
# job. Rows: one, with the positions in the arrays, from 1, of those written, or NULL.
# Index: key, two look-ups a job.
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
), written AS (
UPDATE pgqueue_job AS job
"""

_ROWS: Final[LiteralString] = """
FROM held
WHERE job.queue = %(queue)s AND job.id = held.id
RETURNING held.position"""

_POSITIONS: Final[LiteralString] = """
SELECT array_agg(position) FROM written
"""

_WRITTEN: Final[LiteralString] = (
    _ROWS
    + """
)"""
    + _POSITIONS
)


def _ended(event: LiteralString) -> LiteralString:
    """Return the same for what ends an attempt: counted, with its time since the claim.

    Args:
        event: As ``counted`` takes it.
    """
    return (
        _ROWS
        + """, job.task,
    date_part('epoch', statement_timestamp() - job.claimed_at) AS seconds
)"""
        + counted(event, of="written")
        + _POSITIONS
    )


# Params: those of _HELD; lease (seconds). Rows: of those renewed.
# A HOT update: no index has the expiry.
RENEW: Final[LiteralString] = (
    _HELD
    + """SET lease_expires_at =
    statement_timestamp() + make_interval(secs => %(lease)s::float8)"""
    + _WRITTEN
)

# Params: those of _HELD; details are results. Rows: of those that succeeded.
ACK: Final[LiteralString] = (
    _HELD
    + """SET state = 'succeeded',"""
    + _parts.GIVE_LEASE_UP
    + """
    finished_at = statement_timestamp(),
    result = held.detail"""
    + _ended("'succeeded'")
)

# Params: those of _HELD; delays until the next attempt; details are failures.
# Rows: of those that will run again.
RETRY: Final[LiteralString] = (
    _HELD
    + """SET state = CASE WHEN held.delay > 0 THEN 'scheduled' ELSE 'queued' END,"""
    + _parts.GIVE_LEASE_UP
    + """
    run_at = statement_timestamp() + make_interval(secs => held.delay),"""
    + _parts.REMEMBER_FAILURE
    + _ended("'retried'")
)

# Params: those of _HELD; details are failures. Rows: of those now dead.
FAIL: Final[LiteralString] = (
    _HELD
    + """SET state = 'dead',"""
    + _parts.GIVE_LEASE_UP
    + """
    finished_at = statement_timestamp(),"""
    + _parts.REMEMBER_FAILURE
    + _ended("'failed'")
)

# Params: those of _HELD; details say why. Rows: of those now
# cancelled, by their handlers.
CANCEL_HELD: Final[LiteralString] = FAIL.replace("'dead'", "'cancelled'").replace(
    "'failed'", "'cancelled_by_handler'"
)

# Params: those of _HELD; delays until the next look. Rows: of those put off.
# The attempt is given back.
SNOOZE: Final[LiteralString] = (
    _HELD
    + """SET state = CASE WHEN held.delay > 0 THEN 'scheduled' ELSE 'queued' END,"""
    + _parts.GIVE_LEASE_UP
    + """
    run_at = statement_timestamp() + make_interval(secs => held.delay),
    attempts = greatest(job.attempts - 1, 0),
    worker = ''"""
    + _WRITTEN
)

# Params: those of _HELD. Rows: of those back in the queue, at their old place,
# with the attempt given back.
RELEASE: Final[LiteralString] = (
    _HELD
    + """SET state = 'queued',"""
    + _parts.GIVE_LEASE_UP
    + """
    attempts = greatest(job.attempts - 1, 0),
    worker = ''"""
    + _WRITTEN
)

# Params: those of _HELD. Rows: of those set aside for a worker that knows their
# tasks, with the attempt given back.
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

# Params: id, token. Rows: one if the job is held by this token: the attempt, as a claim
# gives it. Locks: none. Index: key.
FIND_HELD: Final[LiteralString] = """
SELECT queue, id, lease_token::text, task, args::text, kwargs::text, attempts,
    max_attempts, timeout_seconds, priority, run_at::text
FROM pgqueue_job
WHERE id = %(id)s AND lease_token = %(token)s::uuid
"""

# Params: queue, id, token. Rows: one if the caller still holds the job. Locks: the row,
# after whoever has it. Index: key.
LOCK_HELD: Final[LiteralString] = """
SELECT id
FROM pgqueue_job
WHERE queue = %(queue)s AND id = %(id)s AND lease_token = %(token)s::uuid
FOR UPDATE
"""

# Params: queue, id, token; metadata (JSON object), of which each key takes the place of
# the old one; stamped (keys of metadata, whose objects get the time as "at"); bytes (of
# all metadata together, at most). Rows: one if the caller still holds the job: how many
# bytes there are now, or would be if they were not too many. Locks: the row, after
# whoever has it. Index: key. A HOT update, as no index has the metadata.
SAVE_METADATA: Final[LiteralString] = """
WITH given AS MATERIALIZED (
    SELECT coalesce(jsonb_object_agg(
        key,
        CASE WHEN key = ANY(%(stamped)s::text[])
            THEN value || jsonb_build_object('at', statement_timestamp())
            ELSE value
        END
    ), '{}') AS metadata
    FROM jsonb_each(%(metadata)s::jsonb)
), held AS MATERIALIZED (
    SELECT id,
        CASE WHEN jsonb_typeof(job.metadata) = 'object' THEN job.metadata ELSE '{}' END
            || (SELECT metadata FROM given) AS metadata
    FROM pgqueue_job AS job
    WHERE queue = %(queue)s AND id = %(id)s AND lease_token = %(token)s::uuid
    FOR UPDATE
), saved AS (
    UPDATE pgqueue_job AS job
    SET metadata = held.metadata
    FROM held
    WHERE job.queue = %(queue)s AND job.id = held.id
        AND octet_length(held.metadata::text) <= %(bytes)s::integer
)
SELECT octet_length(metadata::text) FROM held
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
