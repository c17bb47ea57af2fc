"""What a session of the package's own asks of the server."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from django.db import DataError, OperationalError, connections

from pgqueue_django.db import Session, WorkerSession, is_connection_error
from pgqueue_django.db.views import one_view
from pgqueue_django.models import Counter
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# A scan that no index can spare.
SCAN = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM pgqueue_counter"


def assert_compiles_nothing(session: Session) -> None:
    """Where scans are dear to the planner, it would compile each that must be."""
    assert session.rows("SHOW enable_seqscan", {}) == [("off",)]
    assert session.rows("SHOW jit", {}) == [("off",)]
    ((plan,),) = session.rows(SCAN, {})
    assert "JIT" not in plan[0]


def test_workers_statements_are_not_compiled():
    with closing(WorkerSession("default", name="pgqueue test")) as session:
        assert_compiles_nothing(session)


def test_statements_of_a_view_are_not_compiled():
    with one_view("default", name="pgqueue test", seconds=2) as session:
        assert_compiles_nothing(session)


def test_instants_are_iso_whatever_the_servers_style(monkeypatch):
    options = {"options": "-c DateStyle=German -c TimeZone=Asia/Kolkata"}
    database = connections["default"].settings_dict
    monkeypatch.setitem(database, "OPTIONS", database["OPTIONS"] | options)
    with closing(WorkerSession("default", name="pgqueue test")) as session:
        instant = session.rows("SELECT '2025-10-26 00:30+00'::timestamptz::text", {})
    assert instant == [("2025-10-26 06:00:00+05:30",)]


DIVIDE = """
INSERT INTO pgqueue_counter (
    grain, shard, starts_at, le, queue, task, event, count, microseconds
)
VALUES ('day', 0, now(), 1, %(queue)s, 't', 'started', 10 / %(by)s::integer, 0)
RETURNING count
"""
WAITS = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"


@pytest.fixture(params=[True, False], ids=["pipeline", "old libpq"])
def own(request, monkeypatch):
    monkeypatch.setattr(
        psycopg.Pipeline, "is_supported", staticmethod(lambda: request.param)
    )
    with closing(WorkerSession("default", name="pgqueue test")) as session:
        yield session


def divide(session: Session, *by: int) -> list[list[tuple[int]]]:
    given = [{"queue": f"q{n}", "by": number} for n, number in enumerate(by)]
    return session.rows_of_each(DIVIDE, given)


def test_the_rows_of_each_come_in_their_order(own):
    assert divide(own, 1, 2, 5) == [[(10,)], [(5,)], [(2,)]]
    assert divide(own, 1) == [[(10,)]]
    assert divide(own) == []


@pytest.mark.parametrize("by", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_of_statements_that_go_together_all_count_or_none(own, by):
    for _ in range(3):  # Until they would be prepared.
        with pytest.raises(DataError):
            divide(own, *by)
        assert Counter.objects.count() == 0
    assert divide(own, 1, 2) == [[(10,)], [(5,)]]
    assert Counter.objects.count() == 2


def test_statements_that_go_together_join_an_open_transaction(own):
    with pytest.raises(DataError), own.atomic():  # noqa: PT012 - the block is undone
        divide(own, 1, 2)
        divide(own, 0)
    assert Counter.objects.count() == 0


def test_a_connection_that_is_lost_amid_them_is_told_as_such(own, connect, caplog):
    ((pid,),) = own.rows("SELECT pg_backend_pid()", {})
    other = connect()

    def end_it_while_it_waits() -> None:
        wait_until(lambda: other.execute(WAITS, [pid]).fetchone() == (True,))
        other.execute("SELECT pg_terminate_backend(%s)", [pid])

    with other.transaction(), ThreadPoolExecutor() as threads:
        other.execute("LOCK TABLE pgqueue_counter")
        ended = threads.submit(end_it_while_it_waits)
        with pytest.raises(OperationalError) as raised:
            divide(own, 1, 2)
        ended.result()

    assert is_connection_error(raised.value)
    assert not caplog.records
    assert divide(own, 1, 2) == [[(10,)], [(5,)]]
