"""The workers' own deleting of what has grown old."""

from time import monotonic
from typing import Any

import pytest
from django.db import OperationalError

from pgqueue_django.db import WorkerSession
from pgqueue_django.maintenance.pruner import Pruner
from pgqueue_django.managers import pruning
from pgqueue_django.models import Job
from pgqueue_django.sql import pruning as sql
from tests import factories
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)

FELLOWS = "pgqueue test "
MINUTE = 45.0  # seconds: the shortest time between two sweeps

FILL = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at, attempts,
    max_attempts, worker, errors, finished_at
)
SELECT
    %s, 't', '[]', '{}', %s, 0, now(), now(), 1, 5, '', '[]', now() - n * interval '1 s'
FROM generate_series(1, %s) AS n
"""


def fill(session: WorkerSession, queue: str, state: str, count: int) -> None:
    session.rows(FILL, (queue, state, count))  # type: ignore[arg-type]


def run_to_the_end(pruner: Pruner) -> list[float]:
    """Run a whole sweep; return the rests between its batches."""
    rests = []
    while (rest := pruner.run_once()) < MINUTE:
        rests.append(rest)
    return rests


def left() -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for group in Job.objects.values_list("queue", "state"):
        found[group] = found.get(group, 0) + 1
    return found


def test_each_queue_and_state_is_kept_as_long_as_the_settings_say(session, settings):
    settings.PGQUEUE = {
        "RETENTION": {"succeeded": 100, "cancelled": 50},
        "QUEUE_RETENTION": {"b": {"succeeded": None, "dead": 10}},
    }
    for queue in "ab":
        for state in ("succeeded", "cancelled", "dead"):
            fill(session, queue, state, 200)

    run_to_the_end(Pruner(session, FELLOWS))

    kept = left()
    expected = {
        ("a", "succeeded"): 100, ("a", "cancelled"): 50, ("a", "dead"): 200,
        ("b", "succeeded"): 200, ("b", "cancelled"): 50, ("b", "dead"): 10,
    }  # fmt: skip
    assert kept.keys() == expected.keys()
    # A second or two may have gone by since.
    assert all(0 <= expected[group] - kept[group] <= 5 for group in expected)


def test_live_jobs_stay_however_old(session, settings):
    settings.PGQUEUE = {
        "RETENTION": dict.fromkeys(("succeeded", "dead", "cancelled"), 0)
    }
    factories.queued()
    factories.claimed(queue="b")
    factories.unserved(queue="c")
    factories.queued(queue="d", delay=60)

    run_to_the_end(Pruner(session, FELLOWS))

    assert Job.objects.count() == 4


def test_nothing_to_do_is_one_look_a_minute(session, settings):
    factories.succeeded()

    assert Pruner(session, FELLOWS).run_once() >= MINUTE
    assert Job.objects.count() == 1


@pytest.fixture
def nothing_is_kept(settings):
    settings.PGQUEUE = {"RETENTION": {"succeeded": 0, "cancelled": 0}}


def test_works_a_tenth_of_the_time_and_a_moment_at_once(session, nothing_is_kept):
    """PRF-07, scaled: live claims are not slowed by more than that."""
    fill(session, "q", "succeeded", 200_000)
    fill(session, "q", "dead", 20_000)
    pruner = Pruner(session, FELLOWS)
    worked: list[float] = []
    rested: list[float] = []
    since = monotonic()
    while (rest := pruner.run_once()) < MINUTE:
        worked.append(monotonic() - since)
        rested.append(rest)
        since = monotonic()

    assert left() == {("q", "dead"): 20_000}
    assert sum(rested) > 8 * sum(worked)
    assert sorted(worked)[len(worked) // 2] < 0.1
    assert len(worked) > 40


def test_pruners_share_their_tenth(new_session, nothing_is_kept):
    fill(new_session(), "q", "succeeded", 1_000)
    sessions = [new_session() for _ in range(4)]
    for session in sessions[1:]:
        session.rows("SELECT 1", {})
    pruner = Pruner(sessions[0], FELLOWS)
    pruner.run_once()
    since = monotonic()
    rest = pruner.run_once()

    assert rest > 30 * (monotonic() - since)


def test_several_pruners_delete_each_job_once(new_session, nothing_is_kept):
    fill(new_session(), "a", "succeeded", 5_000)
    fill(new_session(), "b", "cancelled", 5_000)

    together(run_to_the_end, [Pruner(new_session(), FELLOWS) for _ in range(4)])

    assert left() == {}


def test_rows_that_somebody_has_locked_wait_for_the_next_sweep(
    session, connect, nothing_is_kept
):
    fill(session, "q", "succeeded", 10)
    other = connect()
    other.execute("BEGIN")
    locked = "SELECT id FROM pgqueue_job ORDER BY finished_at LIMIT 3 FOR UPDATE"
    ids = {id_ for (id_,) in other.execute(locked).fetchall()}
    pruner = Pruner(session, FELLOWS)

    run_to_the_end(pruner)
    assert set(Job.objects.values_list("id", flat=True)) == ids

    other.execute("ROLLBACK")
    run_to_the_end(pruner)
    assert left() == {}


def test_a_statement_limit_of_the_server_makes_batches_smaller(
    session, connect, nothing_is_kept
):
    """PRF-07."""
    fill(session, "q", "succeeded", 300)
    connect().execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(0.005); RETURN OLD; END'"
    )
    connect().execute(
        "CREATE TRIGGER slow BEFORE DELETE ON pgqueue_job"
        " FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    try:
        session.rows("SET statement_timeout = '300ms'", {})
        run_to_the_end(Pruner(session, FELLOWS))
    finally:
        connect().execute("DROP FUNCTION slow CASCADE")

    assert left() == {}


def test_goes_on_after_a_lost_connection(session, nothing_is_kept):
    fill(session, "q", "succeeded", 1_000)
    pruner = Pruner(session, FELLOWS)
    pruner.run_once()
    session.abort()

    with pytest.raises(OperationalError):
        pruner.run_once()
    pruner.close()
    run_to_the_end(pruner)

    assert left() == {}


def test_a_batch_begins_where_the_last_one_ended(session, connect, nothing_is_kept):
    """Behind it lie dead entries, which a held-back vacuum cannot take away."""
    fill(session, "q", "succeeded", 20_000)
    with connect() as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        (group,) = pruning.finished_groups(session)
        since = None
        for _ in range(18):
            pruned = pruning.prune_group(
                session, group, age=0, limit=1_000, since=since
            )
            assert pruned.deleted == 1_000
            since = pruned.upto
        from_there, from_the_head = (pages_read(session, at) for at in (since, None))

    assert from_there < from_the_head / 3


def pages_read(session: WorkerSession, since: Any) -> int:
    explain: Any = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql.PRUNE
    values = {"queue": "q", "state": "succeeded", "age": 0, "since": since, "limit": 1}
    explained = session.rows(explain, values)[0][0][0]["Plan"]
    read: int = explained["Shared Hit Blocks"] + explained["Shared Read Blocks"]
    return read
