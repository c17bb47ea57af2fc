"""Statements on ``pgqueue_worker``, which is for people to look at.

Nothing is decided by it: what a dead worker held is found by its leases.
"""

from typing import Final, LiteralString

# Params: name, host, pid, queues, threads, async_slots, running, version, age (seconds
# since the start), silent (seconds after which a row is of nobody). Rows: name. Locks:
# the worker's row, and silent ones, skipping locked ones. Index: key; the table is
# small.
BEAT: Final[LiteralString] = """
WITH silent AS (
    DELETE FROM pgqueue_worker
    WHERE name = ANY(ARRAY(
        SELECT name
        FROM pgqueue_worker
        WHERE seen_at < statement_timestamp() - %(silent)s::float8 * interval '1 second'
            AND name <> %(name)s::text
        FOR UPDATE SKIP LOCKED
    ))
)
INSERT INTO pgqueue_worker AS worker (
    name, host, pid, queues, threads, async_slots, running, version, started_at, seen_at
)
VALUES (
    %(name)s::text, %(host)s::text, %(pid)s::int, %(queues)s::text, %(threads)s::int,
    %(async_slots)s::int, %(running)s::int, %(version)s::text,
    statement_timestamp() - %(age)s::float8 * interval '1 second',
    statement_timestamp()
)
ON CONFLICT (name) DO UPDATE
SET running = excluded.running, seen_at = excluded.seen_at
RETURNING name
"""

# Params: name. Rows: name, if it was there. Locks: the row. Index: key.
LEAVE: Final[LiteralString] = """
DELETE FROM pgqueue_worker WHERE name = %(name)s::text RETURNING name
"""

# Params: limit. Rows: name, host, pid, queues, threads, async_slots, running, version,
# start, last beat, seconds since then. Locks: none. Index: none, the table is small.
ALL: Final[LiteralString] = """
SELECT
    name, host, pid, queues, threads, async_slots, running, version,
    started_at, seen_at,
    greatest(0, date_part('epoch', statement_timestamp() - seen_at))
FROM pgqueue_worker
ORDER BY host, name
LIMIT %(limit)s::bigint
"""
