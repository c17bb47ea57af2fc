"""Bare INSERTs with the columns that an enqueue writes: the floor of enqueueing."""

from typing import Any, Final, LiteralString

_COLUMNS: Final[LiteralString] = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at,
    attempts, max_attempts, timeout_seconds, idempotency_key, unique_key,
    worker, errors
)
"""

INSERT: Final[LiteralString] = (
    _COLUMNS
    + """
VALUES (
    %s, %s, %s::jsonb, %s::jsonb, 'queued', 0, now(), now(),
    0, 5, NULL, NULL, NULL, '', '[]'
)
RETURNING id
"""
)
"""One row. Takes what ``insert_values`` returns."""

UNNEST: Final[LiteralString] = (
    _COLUMNS
    + """
SELECT
    queue, task, args::jsonb, kwargs::jsonb, 'queued', 0, now(), now(),
    0, 5, NULL, NULL, NULL, '', '[]'
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
    AS job (queue, task, args, kwargs)
RETURNING id
"""
)
"""Many rows. Takes what ``unnest_values`` returns."""


def insert_values(queue: str) -> list[Any]:
    """Return parameters for one row."""
    return [queue, "pgqueue_bench.stamp", "[]", '{"at": 0.0}']


def unnest_values(queue: str, rows: int) -> list[Any]:
    """Return parameters for so many rows, one array for each column."""
    return [[value] * rows for value in insert_values(queue)]
