"""Cancelling jobs from outside."""

from typing import Any

import pytest

from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories
from tests.threads import Started
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def _scheduled() -> Any:
    return factories.queued(delay=60)


def _running() -> Any:
    return factories.get(factories.claimed().id)


@pytest.mark.parametrize(
    "make", [factories.queued, _scheduled, factories.unserved, _running]
)
def test_a_job_that_has_not_finished_is_cancelled(make):
    job = make()

    assert Job.objects.cancel(job.id)

    job = factories.get(job.id)
    assert job.state == State.CANCELLED
    assert job.finished_at is not None
    assert job.lease_token is job.lease_expires_at is None
    assert factories.claim() == []


@pytest.mark.parametrize(
    "make", [factories.succeeded, factories.dead, factories.cancelled]
)
def test_a_finished_job_stays_as_it_is(make):
    job = make()
    before = Job.objects.values().get(pk=job.id)

    assert not Job.objects.cancel(job.id)
    assert Job.objects.values().get(pk=job.id) == before


def test_a_running_job_keeps_the_name_of_who_had_it():
    attempt = factories.claimed()
    Job.objects.cancel(attempt.id)

    job = factories.get(attempt.id)
    assert (job.worker, job.attempts, job.errors) == (factories.WORKER, 1, [])


def test_many_are_cancelled_and_named():
    live = [factories.queued().id, factories.queued(queue="other", delay=9).id]
    done = factories.succeeded(queue="done").id

    assert Job.objects.cancel_many([done, *live, 2**62, live[0]]) == set(live)
    assert Job.objects.cancel_many([]) == set()


@pytest.mark.parametrize("id_", [0, -1, 2**63 - 1])
def test_a_job_that_is_not_there_is_not_cancelled(id_):
    assert not Job.objects.cancel(id_)


@pytest.mark.django_db(transaction=True)
def test_waits_for_a_row_that_a_worker_is_writing(connect, watcher):
    """A heartbeat at the wrong moment must not swallow a person's word."""
    attempt = factories.claimed()
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE pgqueue_job SET lease_expires_at = now() + interval '1 h'")

    with Started(Job.objects.cancel, attempt.id) as cancel:
        wait_until(watcher.blocked)
        other.execute("COMMIT")

    assert cancel.result()
    assert factories.get(attempt.id).state == State.CANCELLED


@pytest.mark.django_db(transaction=True)
def test_does_not_undo_an_outcome_that_it_waited_for(connect, watcher):
    attempt = factories.claimed()
    other = connect()
    other.execute("BEGIN")
    other.execute(
        "UPDATE pgqueue_job SET state = 'succeeded', finished_at = now(),"
        " lease_token = NULL, lease_expires_at = NULL"
    )

    with Started(Job.objects.cancel, attempt.id) as cancel:
        wait_until(watcher.blocked)
        other.execute("COMMIT")

    assert not cancel.result()
    assert factories.get(attempt.id).state == State.SUCCEEDED


@pytest.mark.django_db(transaction=True)
def test_locks_in_the_order_of_ids_whatever_the_order_given(connect, watcher):
    """CNC-02: two bulk cancels cannot deadlock."""
    first, second = factories.queued_many(2)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [first])

    with Started(Job.objects.cancel_many, [second, first]) as cancel:
        wait_until(watcher.blocked)
        assert other.execute(
            "SELECT id FROM pgqueue_job WHERE id = %s FOR UPDATE NOWAIT", [second]
        ).fetchall() == [(second,)]
        other.execute("COMMIT")

    assert cancel.result() == {first, second}
