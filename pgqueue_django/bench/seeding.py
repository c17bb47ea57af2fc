"""Jobs by the hundred thousand: put in by one statement, and waited for."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Final, LiteralString

import psycopg

from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.progress import Step
from pgqueue_django.notifications import DUE_CHANNEL

# Jobs whose state tells how far all of them are; looked up by key, since counting would
# be work for the server in the middle of a measurement.
_SAMPLE: Final = 100
_LOOK: Final = 0.1  # seconds between two looks
_STALLED: Final = 60.0  # seconds without any progress

# The columns and values that an enqueue writes. Ids rise without a gap, as nobody else
# writes here. NOTIFY comes with the commit.
_SEED: Final[LiteralString] = """
WITH seeded AS (
    INSERT INTO pgqueue_job (
        queue, task, args, kwargs, state, priority, run_at, enqueued_at,
        attempts, max_attempts, worker, errors
    )
    SELECT
        (%(queues)s::text[])[1 + n %% cardinality(%(queues)s::text[])], %(task)s,
        '[]', %(kwargs)s::jsonb, 'queued', 0, statement_timestamp(),
        statement_timestamp(), 0, 5, '', '[]'
    FROM generate_series(1, %(jobs)s::integer) AS n
    RETURNING id
)
SELECT min(id), max(id), count(*) FROM seeded
"""

_HINT: Final[LiteralString] = (
    "SELECT pg_notify(%(channel)s, queue) FROM unnest(%(queues)s::text[]) AS queue"
)


@dataclass(frozen=True, slots=True)
class Seeded:
    """Jobs with the ids from ``first`` to ``last``."""

    first: int
    last: int

    @property
    def jobs(self) -> int:
        """How many they are."""
        return self.last - self.first + 1

    def sample(self) -> list[int]:
        """Return ids of some, evenly apart, the last among them."""
        many = min(self.jobs, _SAMPLE)
        return [self.first + self.jobs * n // many - 1 for n in range(1, many + 1)]


def clear(connection: Connection) -> None:
    """Empty the job table, and let the server write out what it has in memory."""
    connection.execute("TRUNCATE pgqueue_job")
    # Or one would come in the middle of some repeats; allowed to superusers only.
    with suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute("CHECKPOINT")


def seed(
    connection: Connection, queues: Sequence[str], handler: Handler, jobs: int
) -> Seeded:
    """Enqueue jobs in one transaction, by turns in each queue, and notify workers."""
    values = {"queues": list(queues), "task": handler.task, "kwargs": handler.kwargs}
    row = connection.execute(_SEED, {**values, "jobs": jobs}).fetchone()
    connection.execute(_HINT, {"channel": DUE_CHANNEL, "queues": list(queues)})
    first, last, count = row or (0, 0, 0)
    if count != jobs or last - first + 1 != jobs:
        raise BenchError("somebody else enqueues jobs in the bench's database")
    return Seeded(first, last)


def wait_until_finished(
    connection: Connection,
    seeded: Seeded,
    step: Step,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Block until all jobs have succeeded.

    Args:
        connection: To look.
        seeded: The jobs.
        step: Shows how far they are.
        check: Called at each look; raises when there is nobody left to wait for.

    Raises:
        BenchError: Jobs failed, or for a minute none finished.
    """
    sample, done, moved = seeded.sample(), -1, monotonic()
    while not (done == len(sample) and _all_finished(connection, seeded)):
        Event().wait(_LOOK)
        check()
        before, done = done, _finished(connection, sample)
        step.reach(done / len(sample))
        if done > before:
            moved = monotonic()
        elif monotonic() - moved > _STALLED:
            raise BenchError(
                f"no job finished for {_STALLED:.0f} s: {_states(connection, seeded)}"
            )


def _finished(connection: Connection, ids: list[int]) -> int:
    row = connection.execute(
        "SELECT count(finished_at) FROM pgqueue_job WHERE id = ANY(%s)",
        [ids],
    ).fetchone()
    return int(row[0]) if row else 0


def _all_finished(connection: Connection, seeded: Seeded) -> bool:
    states = _states(connection, seeded)
    if set(states) & {"dead", "cancelled"}:
        raise BenchError(f"jobs of the bench have failed: {states}")
    return set(states) == {"succeeded"}


def _states(connection: Connection, seeded: Seeded) -> dict[str, int]:
    rows = connection.execute(
        "SELECT state, count(*) FROM pgqueue_job WHERE id BETWEEN %s AND %s GROUP BY 1",
        [seeded.first, seeded.last],
    )
    return {str(state): int(count) for state, count in rows.fetchall()}


def rate(connection: Connection, seeded: Seeded) -> float:
    """Return jobs/s from the first claim to the last finish, by the rows' own times."""
    row = connection.execute(
        "SELECT extract(epoch FROM max(finished_at) - min(first_claimed_at))::float8"
        " FROM pgqueue_job WHERE id BETWEEN %s AND %s",
        [seeded.first, seeded.last],
    ).fetchone()
    seconds = float(row[0]) if row else 0.0
    # Both are the times at which statements began; one batch is no measure.
    return seeded.jobs / max(seconds, 1e-3)
