"""The plan of every hot statement, whatever the planner knows of the table.

Each case fills the table once and explains all statements, custom and generic: what
is read must be read by the intended index, in its order where there is one, without a
look at the rest of the table, and joined without comparing each row with each.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest

from pgqueue_django.models import Job
from pgqueue_django.sql import holding, jobs, producing, pruning
from tests.plans import Plan, explain

TABLE = "pgqueue_job"

MIXED = [
    "scheduled", "queued", "unserved", "running", "succeeded",
    "dead", "cancelled", "succeeded", "queued", "queued",
]  # fmt: skip
LIVE = ["queued", "scheduled", "unserved", "running", "dead"]

FILL = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at, attempts,
    max_attempts, worker, errors, finished_at, lease_token, lease_expires_at,
    idempotency_key, unique_key
)
SELECT
    'q' || n % 4, 't' || n % 7, '[]', '{}', job.state, n % 5,
    now() - n * interval '1 s', now(), 0, 5, 'w' || n % 3, '[]',
    CASE WHEN job.state IN ('succeeded', 'dead', 'cancelled')
        THEN now() - n * interval '1 s' END,
    CASE WHEN job.state = 'running' THEN gen_random_uuid() END,
    CASE WHEN job.state = 'running' THEN now() + (n % 100 - 50) * interval '1 s' END,
    CASE WHEN n % 3 = 0 THEN 'k' || n || gen_random_uuid() END,
    CASE WHEN n % 2 = 0 THEN 'u' || n || gen_random_uuid() END
FROM generate_series(1, $1::integer) AS n
CROSS JOIN LATERAL (
    SELECT ($2::text[])[1 + n % cardinality($2::text[])]
) AS job (state)
"""

HELD: dict[str, object] = {
    "queue": "q1",
    "ids": list(range(1, 101)),
    "tokens": [uuid4() for _ in range(100)],
    "delays": [0.0] * 100,
    "details": f"[{','.join(['{}'] * 100)}]",
    "lease": 30.0,
    "counted": True,
}
CLAIM: dict[str, object] = {
    "queue": "q1",
    "limit": 100,
    "worker": "w",
    "token": uuid4(),
    "lease": 30.0,
    "tasks": ["t1", "t2"],
    "depth": 5_000,
    "counted": True,
    "priority": 0,
    "run_at": datetime(2026, 1, 1, tzinfo=UTC),
    "id": 1,
    "queues": ["q1", "q2", "q9"],
    "priorities": [None, 0, None],
    "run_ats": [None, datetime(2026, 1, 1, tzinfo=UTC), None],
    "ids": [None, 1, None],
}
NOTE: dict[str, object] = {
    "queue": "q1", "id": 1, "token": uuid4(), "metadata": "{}", "stamped": [],
    "bytes": 1_000,
}  # fmt: skip
ONE: dict[str, object] = {
    "queue": "q1", "task": "t", "args": "[]", "kwargs": "{}", "priority": 0,
    "run_at": None, "delay": 0.0, "max_attempts": 5, "timeout": None,
    "idempotency_key": "k3", "unique_key": "u3",
}  # fmt: skip
OLD: dict[str, object] = {
    "queue": "q1", "state": "dead", "age": 5.0, "since": None, "limit": 1_000,
}  # fmt: skip
SOME: dict[str, object] = {"ids": list(range(1, 1_000, 50)), "counted": True}

KEY = f"{TABLE}_pkey"
UNIQUE = f"{TABLE}_idempotency_key_once_per_queue"
UNIQUE_LIVE = f"{TABLE}_unique_key_once_per_queue_while_live"

Statement = tuple[LiteralString, dict[str, object], set[str]]

# By name: statement, parameters, and the indexes that its plan may read: all of them,
# and no other.
STATEMENTS: dict[str, Statement] = {
    "ENQUEUE_ONE": (producing.ENQUEUE_ONE, ONE, set()),
    "ENQUEUE_NOW": (producing.ENQUEUE_NOW, ONE, set()),
    "ENQUEUE_ONE_KEYED": (producing.ENQUEUE_ONE_KEYED, ONE, set()),
    "FIND_BY_KEY": (producing.FIND_BY_KEY, ONE, {UNIQUE}),
    "FIND_LIVE": (producing.FIND_LIVE, ONE, {UNIQUE_LIVE}),
    "CLAIM": (holding.CLAIM, CLAIM, {KEY, f"{TABLE}_claim"}),
    "CLAIM_ON": (holding.CLAIM_ON, CLAIM, {KEY, f"{TABLE}_claim"}),
    "CLAIM_ALONG": (holding.CLAIM_ALONG, CLAIM, {KEY, f"{TABLE}_claim"}),
    "DUE_QUEUES": (holding.DUE_QUEUES, CLAIM, {f"{TABLE}_claim"}),
    "UNSERVED_QUEUES": (holding.UNSERVED_QUEUES, CLAIM, {f"{TABLE}_unserved"}),
    "CLAIM_TASKS": (holding.CLAIM_TASKS, CLAIM, {KEY, f"{TABLE}_claim"}),
    "CLAIM_UNSERVED": (holding.CLAIM_UNSERVED, CLAIM, {KEY, f"{TABLE}_unserved"}),
    "SET_ASIDE": (holding.SET_ASIDE, CLAIM, {KEY, f"{TABLE}_claim"}),
    **{
        name: (getattr(holding, name), HELD, {KEY})
        for name in (
            "RENEW", "ACK", "RETRY", "FAIL", "CANCEL_HELD", "SNOOZE", "RELEASE", "PARK",
            "STILL_HELD",
        )
    },
    "FIND_HELD": (holding.FIND_HELD, NOTE, {KEY}),
    "LOCK_HELD": (holding.LOCK_HELD, NOTE, {KEY}),
    "SAVE_METADATA": (holding.SAVE_METADATA, NOTE, {KEY}),
    "PROMOTE": (jobs.PROMOTE, {"limit": 1_000}, {KEY, f"{TABLE}_due"}),
    "PROMOTE_ALONE": (jobs.PROMOTE_ALONE, {"limit": 1_000}, {KEY, f"{TABLE}_due"}),
    "NEXT_DUE": (jobs.NEXT_DUE, {}, {f"{TABLE}_due"}),
    "NEXT_EXPIRY": (jobs.NEXT_EXPIRY, {}, {f"{TABLE}_running"}),
    "REAP": (
        jobs.REAP,
        {"limit": 1_000, "reason": "r", "counted": True},
        {KEY, f"{TABLE}_running"},
    ),
    "CANCEL": (jobs.CANCEL, SOME, {KEY}),
    "CANCELLED": (jobs.CANCELLED, SOME, {KEY}),
    "REQUEUE": (jobs.REQUEUE, SOME, {KEY, UNIQUE_LIVE}),
    "FINISHED_GROUPS": (pruning.FINISHED_GROUPS, {}, {f"{TABLE}_finished"}),
    "PRUNE": (pruning.PRUNE, OLD, {KEY, f"{TABLE}_finished"}),
    "COUNT_OLD": (pruning.COUNT_OLD, OLD, {f"{TABLE}_finished"}),
}  # fmt: skip

# These sort what they looked up by key; and the reaper reads all that runs, which is
# no more than the workers' slots.
MAY_SORT = {"CANCEL", "REQUEUE", "REAP"}

# Reads all of a group, so that the order is nothing to it.
MAY_FETCH_ALL = MAY_SORT | {"COUNT_OLD", "NEXT_EXPIRY"}

# Looks for the first group, and for the next one after each; from the head of one
# queue, and from a place in another.
MAY_READ_TWICE = {"FINISHED_GROUPS", "CLAIM_ALONG"}


class Table:
    """The job table, in whatever shape a case wants it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def run(self, statement: str) -> None:
        self.connection.execute(statement)

    def empty(self) -> None:
        """Leave neither rows nor statistics."""
        self.run(f"TRUNCATE {TABLE} RESTART IDENTITY")
        self.run(f"DELETE FROM pg_statistic WHERE starelid = '{TABLE}'::regclass")

    def fill(self, count: int, states: list[str]) -> None:
        cursor = psycopg.RawCursor(self.connection)
        cursor.execute(FILL, [count, states])


@pytest.fixture(scope="module")
def table(django_db_setup: None, connection_parameters) -> Iterator[Table]:
    with psycopg.connect(**connection_parameters(), autocommit=True) as connection:
        table = Table(connection)
        # No statistics but those that a case makes.
        table.run(f"ALTER TABLE {TABLE} SET (autovacuum_enabled = off)")
        try:
            table.empty()
            yield table
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("deleting statistics takes a superuser")
        finally:
            table.empty()
            table.run(f"ALTER TABLE {TABLE} RESET (autovacuum_enabled)")


def wrong(name: str, plan: Plan, indexes: set[str]) -> Iterator[str]:
    """Yield what is wrong with a plan."""
    scans = plan.scans_of(TABLE)
    for scan in scans:
        if "Seq Scan" in scan["Node Type"]:
            yield "reads the whole table"
        if (
            scan["Node Type"] == "Bitmap Index Scan"
            and scan["Index Name"] != KEY
            and name not in MAY_FETCH_ALL
        ):
            yield f"fetches all that {scan['Index Name']} has before the first"
    if plan.indexes() != indexes:
        yield f"reads {sorted(plan.indexes())}, not {sorted(indexes)}"
    partial = [s["Index Name"] for s in scans if s.get("Index Name", KEY) != KEY]
    if len(partial) != len(set(partial)) and name not in MAY_READ_TWICE:
        yield f"reads {partial}: one of them again to find what it chose"
    if name not in MAY_SORT and plan.sorts_of(TABLE):
        yield "sorts rows of the table"
    if any("Join Filter" in node for node in plan.nodes()):
        yield "compares each row with each"


def all_wrong(connection: psycopg.Connection[Any]) -> list[str]:
    return [
        f"{name} ({mode}) {what}"
        for name, (statement, params, indexes) in STATEMENTS.items()
        for mode in ("custom", "generic")
        for what in wrong(
            name, explain(connection, statement, params, mode=mode), indexes
        )
    ]


def no_statistics(table: Table) -> None:
    table.fill(30_000, MIXED)


def fresh(table: Table) -> None:
    table.fill(30_000, MIXED)
    table.run(f"VACUUM ANALYZE {TABLE}")


def analyzed_empty(table: Table) -> None:
    table.run(f"ANALYZE {TABLE}")
    table.fill(30_000, MIXED)


def vacuumed_empty(table: Table) -> None:
    table.run(f"VACUUM ANALYZE {TABLE}")
    table.fill(30_000, MIXED)


def analyzed_full_then_emptied(table: Table) -> None:
    table.fill(30_000, MIXED)
    table.run(f"ANALYZE {TABLE}")
    table.run(f"DELETE FROM {TABLE}")
    table.fill(100, LIVE)


def analyzed_with_a_few(table: Table) -> None:
    table.fill(30, MIXED)
    table.run(f"VACUUM ANALYZE {TABLE}")
    table.fill(30_000, MIXED)


def analyzed_finished_then_a_burst(table: Table) -> None:
    table.fill(30_000, ["succeeded"])
    table.run(f"VACUUM ANALYZE {TABLE}")
    table.fill(20_000, LIVE)


def analyzed_nearly_finished_then_a_burst(table: Table) -> None:
    """A guess of thirty rows is above no bound, and below all of them."""
    table.fill(30_000, ["succeeded"])
    table.fill(150, LIVE)
    table.run(f"VACUUM ANALYZE {TABLE}")
    table.fill(20_000, LIVE)


def analyzed_all_running_then_few(table: Table) -> None:
    table.fill(30_000, ["running"])
    table.run(f"ANALYZE {TABLE}")
    table.run(f"DELETE FROM {TABLE} WHERE id % 100 <> 0")
    table.fill(20_000, MIXED)


CASES: list[Callable[[Table], None]] = [
    no_statistics,
    fresh,
    analyzed_empty,
    vacuumed_empty,
    analyzed_full_then_emptied,
    analyzed_with_a_few,
    analyzed_finished_then_a_burst,
    analyzed_nearly_finished_then_a_burst,
    analyzed_all_running_then_few,
]


@pytest.mark.parametrize("make", CASES, ids=lambda case: case.__name__)
def test_every_plan_is_the_intended_one(table, make):
    """PRF-04."""
    table.empty()
    make(table)

    assert all_wrong(table.connection) == []


def test_every_plan_is_the_intended_one_while_vacuum_is_held_back(
    table, connection_parameters
):
    """PRF-01, and the trap: the running index is full of dead entries then."""
    table.empty()
    with psycopg.connect(**connection_parameters()) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        table.fill(20_000, ["queued"])
        table.run(
            f"UPDATE {TABLE} SET state = 'running', lease_token = gen_random_uuid(),"
            " lease_expires_at = now() + interval '1 min'"
        )
        table.run(
            f"UPDATE {TABLE} SET state = 'succeeded', finished_at = now(),"
            " lease_token = NULL, lease_expires_at = NULL WHERE id > 100"
        )
        table.run(f"VACUUM ANALYZE {TABLE}")

        assert all_wrong(table.connection) == []
        assert buffers_of_an_ack(table) < 100 * 60

    table.run(f"VACUUM ANALYZE {TABLE}")


def buffers_of_an_ack(table: Table) -> int:
    """Return the pages that an ack of a hundred jobs looks at."""
    rows = table.connection.execute(
        f"SELECT queue, id, lease_token FROM {TABLE}"
        " WHERE state = 'running' ORDER BY id LIMIT 100"
    ).fetchall()
    table.run(f"UPDATE {TABLE} SET queue = 'q1' WHERE state = 'running'")
    given = HELD | {"ids": [r[1] for r in rows], "tokens": [r[2] for r in rows]}
    explained = table.connection.execute(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + holding.ACK, given
    ).fetchall()[0][0][0]["Plan"]
    nodes = Plan(explained).nodes()
    written = next(n for n in nodes if n.get("Subplan Name") == "CTE written")
    assert written["Actual Rows"] == 100
    hit: int = explained["Shared Hit Blocks"] + explained["Shared Read Blocks"]
    return hit


@pytest.mark.django_db(transaction=True)
def test_a_plan_made_for_an_empty_table_does_not_outlive_the_emptiness(
    session, connect
):
    """PRF-04: nothing tells a cached plan that the table has grown."""
    other = connect()
    other.execute(f"VACUUM ANALYZE {TABLE}")
    queue = Job.objects.on(session)
    for _ in range(10):
        queue.claim("q1", limit=10, worker="w", lease=30)
    psycopg.RawCursor(other).execute(FILL, [20_000, MIXED])

    (name,) = (
        name
        for name, statement in session.rows(
            "SELECT name, statement FROM pg_prepared_statements", {}
        )
        if "WITH candidate" in statement
    )
    execute = f"EXECUTE {name} ('q1', 10, 'w', '{uuid4()}', 30, true)"
    explained = session.rows(f"EXPLAIN (FORMAT JSON) {execute}", {})
    plan = Plan(explained[0][0][0]["Plan"])

    assert list(wrong("CLAIM", plan, STATEMENTS["CLAIM"][2])) == []
