"""Statements on ``pgqueue_counter``, and the part that other statements count with.

A statement that changes jobs counts them itself, so that the two cannot disagree. It
writes rows of its own session only, by the number of its server process: no two
transactions that are open at the same time have the same, so that none waits for
another. A row is written for five seconds: while vacuum is held back each version of it
stays in the way of the next. What is a minute old is merged into one row for all.

Times are added up as whole microseconds: a sum of fractions depends on the order, and
could seem to go back after a merge.
"""

from typing import Final, LiteralString

from pgqueue_django import histograms

_KEY: Final[LiteralString] = "grain, shard, starts_at, le, queue, task, event"

_ADD: Final[LiteralString] = (
    "ON CONFLICT ("
    + _KEY
    + """) DO UPDATE
    SET count = counter.count + excluded.count,
        microseconds = counter.microseconds + excluded.microseconds"""
)


# A bound belongs to the bucket below it, hence half a microsecond less.
_LE: Final[LiteralString] = (
    """coalesce((ARRAY["""
    + histograms.BOUNDS_TEXT
    + """]::float8[])[
            1 + width_bucket(seconds - 0.0000005, ARRAY["""
    + histograms.BOUNDS_TEXT
    + """]::float8[])
        ], 'infinity')"""
)

# What becomes what, and when (an instant): a writer's five seconds a minute after their
# minute's end, minutes after two hours, hours after two days, days after a year.
_STAGES: Final[LiteralString] = """
    SELECT
        grain, coarser, unit,
        date_trunc('minute', statement_timestamp(), 'UTC') - age AS before
    FROM (VALUES
        ('writer', 'minute', 'minute', interval '1 minute'),
        ('minute', 'hour', 'hour', interval '2 hours'),
        ('hour', 'day', 'day', interval '48 hours'),
        ('day', 'ever', NULL, interval '366 days')
    ) AS stage (grain, coarser, unit, age)"""


def counted(
    event: LiteralString,
    *,
    of: LiteralString,
    queue: LiteralString = "%(queue)s::text",
    where: LiteralString = "true",
) -> LiteralString:
    """Return the part of a statement that counts what another part returns.

    Args:
        event: What happened, as an expression.
        of: The other part, which has ``task`` and ``seconds``, a float or NULL.
        queue: The queue, as an expression.
        where: Which rows of it, as a condition.

    Returns:
        A part named ``counted``, beginning with a comma. Params: counted (boolean).
    """
    return (
        """, counted AS (
    INSERT INTO pgqueue_counter AS counter ("""
        + _KEY
        + """, count, microseconds)
    SELECT
        'writer', pg_backend_pid(),
        date_bin('5 seconds', statement_timestamp(), timestamptz 'epoch'),
        """
        + _LE
        + """,
        """
        + queue
        + """, task, """
        + event
        + """,
        count(*), round(sum(coalesce(greatest(0, seconds), 0)) * 1000000)
    FROM """
        + of
        + """
    WHERE %(counted)s::boolean AND """
        + where
        + """
    GROUP BY 4, 5, 6, 7
    """
        + _ADD
        + """
)"""
    )


# Params: none. Rows: grains of which something is old enough to be merged. Locks: none.
# Index: key, one look-up a grain.
MERGEABLE: Final[LiteralString] = (
    """
SELECT stage.grain
FROM ("""
    + _STAGES
    + """) AS stage
WHERE EXISTS (
    SELECT
    FROM pgqueue_counter
    WHERE grain = stage.grain AND starts_at < stage.before
)
"""
)

# Params: grain, limit. Rows: how many rows were merged into coarser ones. Locks: those,
# skipping locked ones; then the coarser rows, in one order for all. Index: key, then by
# place. One statement: nothing is lost or counted twice, whoever looks meanwhile.
MERGE: Final[LiteralString] = (
    """
WITH stage AS MATERIALIZED (
    SELECT * FROM ("""
    + _STAGES
    + """) AS stage WHERE grain = %(grain)s::text
), old AS MATERIALIZED (
    SELECT ctid
    FROM pgqueue_counter
    WHERE grain = (SELECT grain FROM stage)
        AND starts_at < (SELECT before FROM stage)
    ORDER BY grain, shard, starts_at
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
), merged AS (
    DELETE FROM pgqueue_counter
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM old))
    RETURNING *
), added AS (
    INSERT INTO pgqueue_counter AS counter ("""
    + _KEY
    + """, count, microseconds)
    SELECT
        stage.coarser, 0,
        coalesce(date_trunc(stage.unit, merged.starts_at, 'UTC'), timestamptz 'epoch'),
        merged.le, merged.queue, merged.task, merged.event,
        sum(merged.count), sum(merged.microseconds)
    FROM merged CROSS JOIN stage
    GROUP BY 1, 3, 4, 5, 6, 7
    ORDER BY 1, 3, 4, 5, 6, 7
    """
    + _ADD
    + """
)
SELECT count(*) FROM merged
"""
)

# Params: none. Rows: queue, task, event, upper bound (seconds), count and microseconds
# of all that ever happened. Locks: none. Index: none, the table is read as it is.
TOTALS: Final[LiteralString] = """
SELECT queue, task, event, le, sum(count)::bigint, sum(microseconds)::bigint
FROM pgqueue_counter
GROUP BY queue, task, event, le
"""
