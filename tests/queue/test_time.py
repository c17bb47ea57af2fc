"""Clocks and time zones: one clock, the database's, and absolute instants."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import override_settings

from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db

SHANGHAI = ZoneInfo("Asia/Shanghai")
LATER = datetime(2090, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture
def without_time_zones() -> Iterator[None]:
    """TIM-07: USE_TZ=False and TIME_ZONE='Asia/Shanghai'."""
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai"):
        yield


def stored(id_: int, column: str = "run_at") -> datetime:
    """Return an instant as the database has it, whatever Django makes of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
            " FROM pgqueue_job WHERE id = %s",
            [id_],
        )
        text: str = cursor.fetchall()[0][0]
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize("skew", [-300, 300])
@pytest.mark.parametrize(
    ("values", "ahead"), [({}, 0), ({"delay": 0}, 0), ({"delay": 10}, 10)]
)
def test_the_callers_clock_counts_for_nothing(skew, values, ahead, monkeypatch):
    """TIM-02."""
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real + skew)

    job = factories.queued(**values)

    assert ahead - 5 < factories.seconds_from_now(job.id, "run_at") <= ahead
    assert job.state == (State.SCHEDULED if ahead else State.QUEUED)


@pytest.mark.usefixtures("without_time_zones")
class TestWithoutTimeZones:
    """TIM-07: USE_TZ=False."""

    def test_a_naive_run_at_is_read_in_the_projects_zone(self):
        job = factories.queued(run_at=datetime(2090, 5, 6, 15, 8, 9))  # noqa: DTZ001

        assert stored(job.id) == LATER

    def test_an_aware_run_at_is_the_instant_that_it_says(self):
        for given in (LATER, LATER.astimezone(ZoneInfo("America/New_York"))):
            assert stored(factories.queued(run_at=given).id) == LATER

    def test_a_job_is_queued_at_once_without_one(self):
        job = factories.queued()

        assert job.state == State.QUEUED
        assert -5 < factories.seconds_from_now(job.id, "run_at") <= 0

    def test_what_is_read_back_is_local_time(self):
        enqueued = Job.objects.enqueue(factories.spec(run_at=LATER))

        job = factories.get(enqueued.id)
        assert job.run_at == LATER.astimezone(SHANGHAI).replace(tzinfo=None)
        assert job.enqueued_at == enqueued.enqueued_at
        assert enqueued.enqueued_at.tzinfo is None

    def test_a_batch_stores_the_same_instants(self):
        (id_,) = Job.objects.enqueue_many([factories.spec(run_at=LATER)])

        assert stored(id_) == LATER

    def test_the_whole_life_works(self):
        attempt = factories.claimed(delay=0)
        Job.objects.retry(attempt, factories.FAILURE, delay=60)
        factories.tick(attempt.id, run_at=-1)
        Job.objects.promote()
        (again,) = factories.claim()
        factories.expire(again)
        Job.objects.reap()
        factories.tick(attempt.id, run_at=-1)
        Job.objects.promote()
        (last,) = factories.claim()
        Job.objects.ack(last)
        factories.tick(attempt.id, finished_at=-10)

        assert Job.objects.prune(older_than=5) == 1


def test_a_naive_run_at_is_refused_where_time_zones_are_on():
    with pytest.raises(InvalidJob, match="run_at: has no time zone"):
        factories.queued(run_at=datetime(2090, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_a_lease_lasts_for_its_length_whatever_the_sessions_zone(use_tz, zone):
    """TIM-09: reaped only after 61 s, in all settings."""
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Asia/Shanghai"):
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL TimeZone = '{zone}'")
        factories.queued()
        assert len(factories.claim(lease=60)) == 1
        assert Job.objects.reap() == []

        # The row's clock moves: 59 s later, and 61 s later.
        for passed, reaped in ((59, 0), (2, 1)):
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE pgqueue_job SET lease_expires_at ="
                    " lease_expires_at - make_interval(secs => %s)",
                    [passed],
                )
            assert len(Job.objects.reap()) == reaped


@pytest.mark.django_db(transaction=True)
def test_a_zone_of_the_role_changes_nothing(new_session):
    """TIM-09: by ALTER ROLE, as seen by a worker's session."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Kolkata'")
    try:
        session = new_session()
        assert session.rows("SELECT current_setting('TimeZone')", {}) == [
            ("Asia/Kolkata",)
        ]
        queue = Job.objects.on(session)
        first = queue.enqueue(factories.spec(run_at=LATER)).id
        second = queue.enqueue(factories.spec()).id
        (attempt,) = queue.claim("default", limit=9, worker="w", lease=60)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER ROLE CURRENT_USER RESET TimeZone")

    assert stored(first) == LATER
    assert attempt.id == second
    assert queue.reap() == []
    assert 55 < factories.seconds_from_now(second, "lease_expires_at") <= 60


def test_stored_instants_are_absolute_whatever_the_settings_become():
    """TIM-14: USE_TZ and TIME_ZONE change between two starts."""
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai"):
        ids = [factories.queued(delay=3_600).id for _ in range(3)]
        before = [stored(id_) for id_ in ids]
    for use_tz, zone in ((True, "UTC"), (True, "America/New_York"), (False, "UTC")):
        with override_settings(USE_TZ=use_tz, TIME_ZONE=zone):
            assert Job.objects.promote() == {}
            assert [stored(id_) for id_ in ids] == before
            assert 3_590 < (Job.objects.next_due() or 0) <= 3_600


def test_columns_of_instants_are_all_with_time_zone():
    """TIM-09."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE data_type = 'timestamp with time zone'),"
            " count(*) FILTER (WHERE data_type LIKE 'timestamp%%'"
            "  OR column_name LIKE '%%\\_at')"
            " FROM information_schema.columns WHERE table_name = %s",
            ["pgqueue_job"],
        )
        assert cursor.fetchall() == [(6, 6)]


def test_an_instant_keeps_its_microseconds():
    """API-06."""
    given = LATER + timedelta(microseconds=123_457)

    assert factories.queued(run_at=given).run_at == given
