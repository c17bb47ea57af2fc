"""Rows as they are: read, compared with the model, put back, and their clocks moved."""

import json
from typing import Any, LiteralString, NamedTuple

from pgqueue_django.db import Session
from pgqueue_django.managers import counters
from pgqueue_django.states import State
from tests.model.jobs import PINNED_WAIT, Failed, Job
from tests.model.tables import Counted, Table

DRIFT = 40.0
"""Seconds of the real clock that may pass beside the model's, which stands still.

Leases, waits and ages end half a hundred seconds off the model's time, which moves by
whole hundreds: what is over for one of the two is over for the other.
"""


class Row(NamedTuple):
    """A job's row; instants are seconds from the database's now."""

    id: int
    queue: str
    task: str
    kwargs: dict[str, Any]
    priority: int
    max_attempts: int
    key: str | None
    unique_key: str | None
    state: str
    attempts: int
    worker: str
    token: str | None
    ever_claimed: bool
    result: str | None
    errors: list[dict[str, Any]]
    due_in: float
    lease_for: float | None
    finished_in: float | None
    wait: float | None
    """Between the newest failure and ``run_at`` (seconds)."""


_READ: LiteralString = """
SELECT
    id, queue, task, kwargs, priority, max_attempts, idempotency_key, unique_key,
    state, attempts, worker, lease_token::text, first_claimed_at IS NOT NULL,
    result::text, errors,
    extract(epoch FROM run_at - statement_timestamp())::float8,
    extract(epoch FROM lease_expires_at - statement_timestamp())::float8,
    extract(epoch FROM finished_at - statement_timestamp())::float8,
    extract(epoch FROM run_at - (errors -> -1 ->> 'at')::timestamptz)::float8
FROM pgqueue_job
"""


def read(session: Session) -> dict[int, Row]:
    """Return all rows by id."""
    return {row[0]: Row(*row) for row in session.rows(_READ, {})}


def counts(session: Session) -> dict[Counted, int]:
    """Return what the counters say."""
    found: dict[Counted, int] = {}
    for total in counters.totals(session):
        of = Counted(total.queue, total.task, total.event)
        found[of] = found.get(of, 0) + total.times
    return found


# --- against the model ----------------------------------------------------------------


def assert_agree(table: Table, rows: dict[int, Row]) -> None:
    """Fail if rows are not what the model has."""
    assert sorted(rows) == sorted(table.jobs)
    for id_, job in table.jobs.items():
        row = rows[id_]
        assert _exact(row) == _expected(job), id_
        assert _near(row.due_in, job.run_at.at - table.now), ("run_at", id_)
        assert _near_or_none(row.lease_for, job.lease_until, table.now), ("lease", id_)
        assert _near_or_none(row.finished_in, job.finished_at, table.now), id_


def _exact(row: Row) -> tuple[object, ...]:
    errors = tuple(
        Failed(entry["attempt"], entry["worker"], entry["exception"])
        for entry in row.errors
    )
    return (*row[1:14], errors)


def _expected(job: Job) -> tuple[object, ...]:
    return (
        job.queue, job.task, json.loads(job.call), job.priority, job.max_attempts,
        job.key, job.unique_key, job.state.value, job.attempts, job.worker, job.token,
        job.ever_claimed, job.result, job.errors,
    )  # fmt: skip


def _near(real: float, model: float) -> bool:
    # The real clock goes on, so what is ahead comes nearer.
    return model - DRIFT < real < model + 0.001


def _near_or_none(real: float | None, model: float | None, now: float) -> bool:
    if real is None or model is None:
        return real is model
    return _near(real, model - now)


# --- clocks ---------------------------------------------------------------------------

_ADVANCE: LiteralString = """
UPDATE pgqueue_job SET
    run_at = run_at - by, enqueued_at = enqueued_at - by,
    lease_expires_at = lease_expires_at - by,
    first_claimed_at = first_claimed_at - by, claimed_at = claimed_at - by,
    finished_at = finished_at - by
FROM (SELECT make_interval(secs => %(seconds)s::float8)) AS span (by)
"""


def advance(session: Session, seconds: float) -> None:
    """Let so much time have passed for every row."""
    session.rows(_ADVANCE, {"seconds": seconds})


_PIN: LiteralString = """
UPDATE pgqueue_job
SET run_at = statement_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE id = ANY(%(ids)s::bigint[])
"""


def pin_waits(session: Session, ids: list[int]) -> None:
    """Let jobs that were reaped wait as long as the model says, if not too long.

    Half of the wait after a lost lease is random: 1 s after the second attempt, and
    twice as long after each further one, up to a minute.
    """
    rows = read(session)
    waiting = [rows[i] for i in ids if rows[i].state == State.SCHEDULED]
    for row in waiting:
        longest = min(60.0, 2.0 ** (row.attempts - 2))
        assert row.wait is not None
        assert longest / 2 - 0.001 < row.wait < longest + 0.001
    session.rows(_PIN, {"seconds": PINNED_WAIT, "ids": [row.id for row in waiting]})
