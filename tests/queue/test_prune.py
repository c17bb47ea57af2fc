"""Deleting finished jobs."""

import pytest

from pgqueue_django.models import Job
from pgqueue_django.states import FINISHED, State
from tests import factories

pytestmark = pytest.mark.django_db

MAKERS = {
    State.SUCCEEDED: factories.succeeded,
    State.DEAD: factories.dead,
    State.CANCELLED: factories.cancelled,
}


@pytest.mark.parametrize("state", sorted(MAKERS))
def test_a_job_goes_when_it_is_old_enough(state):
    old, young = MAKERS[state](), MAKERS[state]()
    factories.tick(old.id, finished_at=-61)
    factories.tick(young.id, finished_at=-59)

    assert Job.objects.prune(older_than=60) == 1
    assert list(Job.objects.all()) == [young]


def test_every_finished_state_is_pruned():
    assert set(MAKERS) == FINISHED


def test_live_jobs_stay_however_old():
    factories.queued(queue="a")
    factories.queued(queue="b", delay=60)
    factories.claimed(queue="c")
    factories.unserved(queue="d")
    for job in Job.objects.all():
        factories.tick(job.id, run_at=-1e9, enqueued_at=-1e9)

    assert Job.objects.prune(older_than=0) == 0
    assert Job.objects.count() == 4


def test_only_the_chosen_states_go():
    jobs = {state: make() for state, make in MAKERS.items()}
    for job in jobs.values():
        factories.tick(job.id, finished_at=-10)

    assert Job.objects.prune(older_than=1, states=[State.DEAD]) == 1
    assert set(Job.objects.all()) == {jobs[State.SUCCEEDED], jobs[State.CANCELLED]}
    assert Job.objects.prune(older_than=1, states=[]) == 0
    assert Job.objects.prune(older_than=1, states=["queued", "succeeded"]) == 1


def test_the_oldest_go_first_in_small_batches():
    """PRF-07."""
    jobs = [factories.succeeded() for _ in range(5)]
    for n, job in enumerate(jobs):
        factories.tick(job.id, finished_at=-100 - n)

    assert Job.objects.prune(older_than=60, limit=2) == 2
    assert set(Job.objects.all()) == set(jobs[:3])
    assert [Job.objects.prune(older_than=60, limit=2) for _ in range(3)] == [2, 1, 0]


@pytest.mark.django_db(transaction=True)
def test_skips_rows_locked_by_another_transaction(connect):
    locked, free = factories.succeeded(), factories.succeeded()
    for job in (locked, free):
        factories.tick(job.id, finished_at=-10)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [locked.id])

    assert Job.objects.prune(older_than=1) == 1
    assert list(Job.objects.all()) == [locked]
