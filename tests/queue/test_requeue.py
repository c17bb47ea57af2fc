"""Letting dead jobs run again."""

import pytest

from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories
from tests.threads import Started
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def test_a_dead_job_waits_again_with_all_its_attempts():
    job = factories.dead(max_attempts=3)
    factories.tick(job.id, run_at=-600)

    assert Job.objects.requeue(job.id)

    job = factories.get(job.id)
    assert (job.state, job.attempts, job.max_attempts) == (State.QUEUED, 0, 3)
    assert (job.finished_at, job.worker) == (None, "")
    assert -5 < factories.seconds_from_now(job.id, "run_at") <= 0
    (attempt,) = factories.claim()
    assert (attempt.id, attempt.number) == (job.id, 1)


def test_its_history_stays():
    job = factories.dead()
    Job.objects.requeue(job.id)

    assert len(factories.get(job.id).errors) == 1


def test_its_key_stays():
    """CNC-09: the key is the job's own, so nothing can take it meanwhile."""
    job = factories.dead(idempotency_key="k")
    Job.objects.requeue(job.id)

    assert Job.objects.enqueue(factories.spec(idempotency_key="k")).id == job.id


@pytest.mark.parametrize(
    "make",
    [
        factories.queued,
        lambda: factories.queued(delay=60),
        factories.unserved,
        lambda: factories.get(factories.claimed().id),
        factories.succeeded,
        factories.cancelled,
    ],
    ids=["queued", "scheduled", "unserved", "running", "succeeded", "cancelled"],
)
def test_a_job_that_is_not_dead_stays_as_it_is(make):
    job = make()
    before = Job.objects.values().get(pk=job.id)

    assert not Job.objects.requeue(job.id)
    assert Job.objects.values().get(pk=job.id) == before


def test_many_are_requeued_and_named():
    dead = {factories.dead(queue=f"q{n}").id for n in range(3)}
    other = factories.succeeded().id

    assert Job.objects.requeue_many([*dead, other, 2**62]) == dead


@pytest.mark.django_db(transaction=True)
def test_two_people_requeue_a_job_once(connect, watcher):
    job = factories.dead()
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE pgqueue_job SET state = 'queued', finished_at = NULL")

    with Started(Job.objects.requeue, job.id) as requeue:
        wait_until(watcher.blocked)
        other.execute("COMMIT")

    assert not requeue.result()
