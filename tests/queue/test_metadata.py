"""What the holder of a job adds to its row."""

import json
from typing import Any

import pytest
from django.db import connection

from pgqueue_django import limits
from pgqueue_django.attempts import Write
from pgqueue_django.models import Job
from tests import factories
from tests.threads import Started
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def save(attempt, *, stamped=(), **metadata):
    return Job.objects.save_metadata(attempt, json.dumps(metadata), stamped=stamped)


def metadata_of(attempt):
    return factories.get(attempt.id).metadata


def test_a_key_takes_the_place_of_the_same_one_and_others_stay():
    attempt = factories.claimed()
    assert metadata_of(attempt) is None
    assert save(attempt, a=1, b={"c": [1]})
    assert save(attempt, b=None)
    assert metadata_of(attempt) == {"a": 1, "b": None}


def test_a_stamped_key_has_the_databases_time():
    attempt = factories.claimed()
    save(attempt, _progress={"done": 1}, stamped=["_progress"])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT statement_timestamp() - (metadata->'_progress'->>'at')::timestamptz"
            " FROM pgqueue_job"
        )
        assert 0 <= cursor.fetchall()[0][0].total_seconds() < 60


def test_only_the_holder_writes():
    old = factories.claimed()
    new = factories.claimed_again(old)
    assert save(old, a="old") is None
    assert save(new, a="new")
    assert metadata_of(new) == {"a": "new"}
    for wrong in ({"queue": "other"}, {"id": new.id + 1}):
        assert save(new._replace(**wrong), a=1) is None


@pytest.mark.parametrize("end", ["ack", "release", "snooze", "retry"])
def test_it_outlives_the_attempt(end):
    attempt = factories.claimed()
    save(attempt, a=1)
    verb = getattr(Job.objects, end)
    given: dict[str, list[Any]] = {"retry": [factories.FAILURE, 5], "snooze": [5]}
    more = given.get(end, [])
    assert verb(attempt, *more)
    assert metadata_of(attempt) == {"a": 1}
    assert save(attempt, a=2) is None


def test_more_than_the_limit_is_not_written():
    attempt = factories.claimed()
    half = "x" * (limits.METADATA_BYTES // 2)
    size = save(attempt, a=half)
    assert size is not None
    assert size <= limits.METADATA_BYTES
    too_many = save(attempt, b=half)
    assert too_many is not None
    assert too_many > limits.METADATA_BYTES
    assert metadata_of(attempt) == {"a": half}


@pytest.mark.parametrize("odd", ["'[1]'", "'5'", "'null'", "NULL"])
def test_what_raw_sql_put_there_gives_way(odd):
    attempt = factories.claimed()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE pgqueue_job SET metadata = {odd}")
    save(attempt, a=1)
    assert metadata_of(attempt) == {"a": 1}


def test_it_touches_no_index_and_renewals_touch_none_after_it():
    """HOT updates both: no index has the column, and the page has room."""
    attempt = factories.claimed()
    counted = "SELECT pg_stat_get_xact_tuples_hot_updated('pgqueue_job'::regclass)"
    with connection.cursor() as cursor:
        cursor.execute(counted)
        before = cursor.fetchall()[0][0]
        for done in range(3):
            save(attempt, done=done)
            Job.objects.renew_many([Write(attempt)], lease=60)
        cursor.execute(counted)
        assert cursor.fetchall()[0][0] - before == 6


@pytest.mark.django_db(transaction=True)
def test_it_waits_for_whoever_has_the_row(connect, watcher):
    attempt = factories.claimed()
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM pgqueue_job FOR UPDATE")
        with Started(save, attempt, a=1) as saving:
            wait_until(watcher.blocked)
    assert saving.result()
    assert metadata_of(attempt) == {"a": 1}


def test_lock_tells_who_holds_the_job():
    old = factories.claimed()
    assert Job.objects.holds(old)
    assert Job.objects.lock(old)
    new = factories.claimed_again(old)
    assert not Job.objects.holds(old)
    assert not Job.objects.lock(old)
    assert Job.objects.lock(new)
