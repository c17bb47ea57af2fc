"""Old minutes become hours, days, and one sum of all before."""

from threading import Event
from typing import Any

import pytest

from pgqueue_django.db import DjangoSession, WorkerSession
from pgqueue_django.maintenance.merger import Merger
from pgqueue_django.managers import counters
from pgqueue_django.models import Counter, Job
from pgqueue_django.sql import counters as sql
from tests import factories
from tests.counters.reading import totals
from tests.plans import explain
from tests.threads import Started, together

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE, HOUR, DAY = 60, 3_600, 86_400

FILL = """
INSERT INTO pgqueue_counter (
    grain, shard, starts_at, le, queue, task, event, count, microseconds
)
SELECT
    %(grain)s, writer,
    date_trunc('minute', statement_timestamp(), 'UTC')
        - make_interval(secs => %(age)s::float8 + minute * 60),
    le, 'q', 't' || task, event, 1 + (minute * 7 + writer) %% 5, minute * 1000 + task
FROM generate_series(0, %(minutes)s - 1) AS minute,
    generate_series(1, %(writers)s) AS writer,
    generate_series(1, 3) AS task,
    unnest(ARRAY['started', 'succeeded']) AS event,
    unnest(ARRAY[0.005, 0.01, 'infinity']::float8[]) AS le
RETURNING 1
"""


def fill(
    session: WorkerSession | DjangoSession,
    *,
    age: float,
    minutes: int = 10,
    writers: int = 3,
    grain: str = "writer",
) -> None:
    values = {"grain": grain, "age": age, "minutes": minutes, "writers": writers}
    session.rows(FILL, values)


def merge_all(session: WorkerSession) -> None:
    merger = Merger(session)
    while counters.mergeable(session):
        merger.run_once()


def grains() -> set[str]:
    return set(Counter.objects.values_list("grain", flat=True))


@pytest.mark.parametrize(
    ("age", "grain"),
    [
        (0, "writer"),
        (5 * MINUTE, "minute"),
        (4 * HOUR, "hour"),
        (4 * DAY, "day"),
        (370 * DAY, "ever"),
    ],
)
def test_the_older_the_coarser_and_the_sums_stay(session, age, grain):
    fill(session, age=age, minutes=1)
    before = sorted(totals())

    merge_all(session)

    assert grains() == {grain}
    assert sorted(totals()) == before
    assert (set(Counter.objects.values_list("shard", flat=True)) == {0}) == (
        grain != "writer"
    )


def test_the_present_minute_and_the_one_before_are_left_alone(session):
    factories.succeeded()
    fill(session, age=MINUTE, minutes=1)
    before = Counter.objects.count()

    assert counters.mergeable(session) == []
    for grain in ("writer", "minute", "hour", "day", "ever"):
        assert counters.merge(session, grain, limit=10) == 0
    assert Counter.objects.count() == before


def test_rows_become_few(session):
    fill(session, age=10 * DAY, minutes=1_000, writers=5)
    assert Counter.objects.count() == 90_000

    merge_all(session)

    # Two days, or three where a midnight is between: 3 tasks, 2 events, 3 buckets.
    assert Counter.objects.count() <= 3 * 18


def test_rows_that_a_transaction_still_writes_wait(session, connect):
    fill(session, age=HOUR, minutes=1, writers=2)
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE pgqueue_counter SET count = count + 1 WHERE shard = 1")
    before = {total[:4]: total.times for total in totals()}
    merge_all_free(session)

    assert set(Counter.objects.values_list("grain", "shard")) == {
        ("minute", 0),
        ("writer", 1),
    }
    assert {total[:4]: total.times for total in totals()} == before

    other.execute("COMMIT")
    merge_all(session)
    assert {total[:4]: total.times - 1 for total in totals()} == before


def merge_all_free(session: WorkerSession) -> None:
    for grain in counters.mergeable(session):
        counters.merge(session, grain, limit=1_000)


def test_several_mergers_and_readers_at_once_see_the_same_sums(new_session):
    """Nothing is lost, and nothing is counted twice, at any moment."""
    for age in (10 * MINUTE, 5 * HOUR, 10 * DAY, 400 * DAY):
        fill(new_session(), age=age, minutes=40, writers=4)
    before = sorted(totals())
    over = Event()

    def read(session: WorkerSession) -> int:
        looks = 0
        while not over.is_set():
            assert sorted(counters.totals(session)) == before
            looks += 1
        return looks

    with Started(read, new_session()) as reader:
        try:
            together(merge_all, [new_session() for _ in range(4)])
        finally:
            over.set()

    assert reader.result() > 0
    assert sorted(totals()) == before
    assert "writer" not in grains()


def test_counting_goes_on_while_old_rows_are_merged(new_session):
    """A clock that goes back writes minutes that are being merged."""
    fill(new_session(), age=3 * HOUR, minutes=30, writers=8)
    before = sum(total.times for total in totals())
    over = Event()

    def count(session: WorkerSession) -> int:
        jobs = Job.objects.on(session)
        done = 0
        while not over.is_set():
            done += len(jobs.cancel_many(jobs.enqueue_many([factories.spec()] * 5)))
        return done

    with Started(count, new_session()) as counter:
        together(merge_all, [new_session() for _ in range(2)])
        over.set()

    assert sum(total.times for total in totals()) == before + counter.result()


def test_a_full_batch_is_followed_soon_by_the_next(session):
    fill(session, age=HOUR, minutes=60)

    merger = Merger(session)
    assert merger.run_once() < 1
    merge_all(session)
    assert merger.run_once() > 30


def test_old_rows_are_found_by_the_key(session, connect):
    plain = connect()
    fill(session, age=0, minutes=60, writers=20, grain="minute")
    fill(session, age=2 * MINUTE, minutes=2, writers=20)
    values: dict[str, Any] = {"grain": "writer", "limit": 1_000}
    for analyze in ("SELECT 1", "ANALYZE pgqueue_counter"):
        plain.execute(analyze)
        for mode in ("custom", "generic"):
            for statement in (sql.MERGE, sql.MERGEABLE):
                plan = explain(plain, statement, values, mode=mode)
                scans = {node["Node Type"] for node in plan.scans_of("pgqueue_counter")}
                assert "Seq Scan" not in scans, str(plan)
