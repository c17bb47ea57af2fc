"""Promoting scheduled jobs that are due."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db


def _overdue(seconds: float = 1, **values: Any) -> Any:
    job = factories.queued(delay=60, **values)
    factories.tick(job.id, run_at=-seconds)
    return factories.get(job.id)


def test_a_due_job_is_queued_and_keeps_its_time():
    job = _overdue()

    assert Job.objects.promote() == {"default": 1}

    after = factories.get(job.id)
    assert (after.state, after.run_at) == (State.QUEUED, job.run_at)
    assert factories.claim()[0].id == job.id


def test_a_job_that_is_not_due_yet_waits():
    factories.queued(delay=60)

    assert Job.objects.promote() == {}
    assert factories.states() == [State.SCHEDULED]


@pytest.mark.parametrize(
    "make", [factories.succeeded, factories.dead, factories.unserved, factories.claimed]
)
def test_nothing_else_is_touched(make):
    make()
    before = factories.states()

    assert Job.objects.promote() == {}
    assert factories.states() == before


def test_the_due_are_counted_by_queue():
    for queue in ("a", "b", "a"):
        _overdue(queue=queue)

    assert Job.objects.promote() == {"a": 2, "b": 1}


def test_the_longest_due_come_first_up_to_the_limit():
    late, later = _overdue(1), _overdue(2)

    assert Job.objects.promote(limit=1) == {"default": 1}
    assert factories.get(later.id).state == State.QUEUED
    assert factories.get(late.id).state == State.SCHEDULED


def test_a_backoff_that_is_over_is_promoted():
    attempt = factories.claimed()
    Job.objects.retry(attempt, factories.FAILURE, delay=60)
    factories.tick(attempt.id, run_at=-1)

    assert Job.objects.promote() == {"default": 1}


def test_the_next_due_is_told_in_seconds():
    assert Job.objects.next_due() is None

    factories.queued()
    factories.queued(delay=600)
    job = factories.queued(delay=60)
    assert 55 < (Job.objects.next_due() or 0) <= 60

    factories.tick(job.id, run_at=-5)
    assert -10 < (Job.objects.next_due() or 0) <= -5


@pytest.mark.django_db(transaction=True)
def test_skips_rows_locked_by_another_transaction(connect):
    locked, free = _overdue(2), _overdue(1)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [locked.id])

    assert Job.objects.promote(limit=1) == {"default": 1}
    assert factories.get(free.id).state == State.QUEUED


@pytest.mark.django_db(transaction=True)
def test_only_alone_does_it_not_wait_for_the_flush():
    """A lost promotion is made again; the caller's own writes are to be durable."""
    _overdue()
    with transaction.atomic(), CaptureQueriesContext(connection) as joined:
        Job.objects.promote()
        assert _synchronous_commit() == "on"
    _overdue()
    with CaptureQueriesContext(connection) as alone:
        assert Job.objects.promote() == {"default": 1}

    assert "synchronous_commit" not in joined.captured_queries[0]["sql"]
    assert "synchronous_commit" in alone.captured_queries[0]["sql"]
    assert _synchronous_commit() == "on"


def _synchronous_commit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        return str(cursor.fetchone()[0])
