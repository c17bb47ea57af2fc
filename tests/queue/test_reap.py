"""Reaping: leases that ended without a word."""

import pytest

from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_live_lease_is_left_alone():
    attempt = factories.claimed()

    assert Job.objects.reap() == []
    assert factories.get(attempt.id).state == State.RUNNING


@pytest.mark.parametrize(
    "make", [factories.queued, factories.succeeded, factories.dead, factories.unserved]
)
def test_a_job_that_nobody_holds_is_left_alone(make):
    make()

    assert Job.objects.reap() == []


def test_a_first_lost_lease_costs_no_wait():
    attempt = factories.claimed()
    place = factories.get(attempt.id).run_at
    factories.expire(attempt)

    (reaped,) = Job.objects.reap()

    assert reaped == (
        attempt.id, "default", "tests.task", "queued", 1, factories.WORKER,
    )  # fmt: skip
    job = factories.get(attempt.id)
    assert (job.state, job.attempts, job.run_at) == (State.QUEUED, 1, place)
    assert job.lease_token is job.lease_expires_at is job.finished_at is None


def test_the_reason_is_kept_as_the_attempts_failure():
    attempt = factories.claimed()
    factories.expire(attempt)
    Job.objects.reap()

    (error,) = factories.get(attempt.id).errors
    assert error.pop("at")
    assert error == {
        "attempt": 1,
        "worker": factories.WORKER,
        "exception": "pgqueue_django.exceptions.LeaseExpired",
        "message": "lease expired",
        "traceback": "",
    }


@pytest.mark.parametrize(
    ("attempts", "low", "high"),
    [(2, 0.5, 1), (3, 1, 2), (5, 4, 8), (8, 30, 60), (9, 30, 60), (2_000, 30, 60)],
)
def test_later_ones_wait_longer_up_to_a_minute(attempts, low, high):
    """TIM-12: never negative, never over the longest, whatever the attempt."""
    held = factories.claimed_many(20, max_attempts=10_000)
    Job.objects.update(attempts=attempts)
    factories.expire(*held)

    reaped = Job.objects.reap()

    waits = [factories.seconds_from_now(attempt.id, "run_at") for attempt in held]
    assert {job.state for job in reaped} == {State.SCHEDULED}
    assert all(low - 0.5 < wait <= high for wait in waits)
    assert len(set(waits)) > 10  # jitter


def test_the_last_attempt_ends_dead():
    attempt = factories.claimed(max_attempts=1)
    factories.expire(attempt)

    (reaped,) = Job.objects.reap()

    job = factories.get(attempt.id)
    assert reaped.state == job.state == State.DEAD
    assert job.finished_at is not None
    assert job.errors[-1]["message"] == "lease expired"


def test_the_row_alone_decides():
    """LEA-02, LEA-08, rule 4: no worker table, no name, whatever the queue."""
    held = [
        factories.claimed(queue=queue) for queue in ("a", "b", "c", "no-one-serves")
    ]
    factories.expire(*held)

    assert {job.id for job in Job.objects.reap()} == {attempt.id for attempt in held}


def test_takes_at_most_its_limit_and_says_when_none_is_left():
    factories.expire(*factories.claimed_many(5))

    assert [len(Job.objects.reap(limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_retry_before_the_claim_is_no_reason_to_reap():
    """LEA-15: old times of an earlier attempt count for nothing."""
    attempt = factories.claimed()
    factories.tick(attempt.id, claimed_at=-600, first_claimed_at=-600, run_at=-900)

    assert Job.objects.reap() == []


def test_five_orphans_are_run_again_by_whoever_comes():
    """LEA-19."""
    held = factories.claimed_many(5)
    factories.expire(*held)
    Job.objects.reap()

    again = factories.claim(limit=9, worker="newcomer")
    assert [attempt.number for attempt in again] == [2] * 5


@pytest.mark.django_db(transaction=True)
def test_skips_rows_locked_by_another_transaction(connect):
    locked, free = factories.claimed_many(2)
    factories.expire(locked, free)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [locked.id])

    assert [job.id for job in Job.objects.reap()] == [free.id]


@pytest.mark.django_db(transaction=True)
def test_a_renewal_that_commits_first_saves_the_lease(connect):
    attempt = factories.claimed()
    factories.expire(attempt)
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE pgqueue_job SET lease_expires_at = now() + interval '1 min'")

    assert Job.objects.reap() == []
    other.execute("COMMIT")
    assert Job.objects.reap() == []
    assert Job.objects.ack(attempt)


def test_the_jobs_of_a_worker_seen_dead_come_back_at_once():
    mine = factories.claimed_many(2)
    factories.queued()
    (others,) = factories.claim(worker="other")

    reaped = Job.objects.reap_dead_worker(factories.WORKER)

    assert {job.id for job in reaped} == {attempt.id for attempt in mine}
    assert {job.worker for job in reaped} == {factories.WORKER}
    assert factories.get(others.id).state == State.RUNNING
    assert factories.get(mine[0].id).errors[0]["message"] == "worker process died"


def test_who_was_killed_for_other_jobs_gives_its_own_back():
    culprit, *mine = factories.claimed_many(3)
    factories.queued()
    (others,) = factories.claim(worker="other")

    released = Job.objects.release_dead_worker(factories.WORKER, besides=[culprit.id])

    assert released == 2
    for attempt in mine:
        job = factories.get(attempt.id)
        assert (job.state, job.attempts, job.errors) == (State.QUEUED, 0, [])
        assert not Job.objects.ack(attempt)
    assert factories.get(others.id).state == State.RUNNING
    assert Job.objects.find_held(culprit.id, culprit.token) == culprit
    assert Job.objects.find_held(culprit.id, others.token) is None


def test_a_job_whose_history_is_full_is_reaped_all_the_same():
    attempt = factories.claimed(max_attempts=100)
    Job.objects.update(errors=[{"attempt": n} for n in range(20)])
    factories.expire(attempt)

    (reaped,) = Job.objects.reap()

    errors = factories.get(attempt.id).errors
    assert reaped.worker == errors[-1]["worker"] == factories.WORKER
    assert len(errors) == 20
    assert errors[0] == {"attempt": 1}


def test_reaping_is_one_statement(django_assert_num_queries):
    """CNC-16: there is no moment between two at which to die."""
    attempts = [factories.claimed(max_attempts=number) for number in (1, 2)]
    factories.expire(*attempts)

    with django_assert_num_queries(1):
        assert len(Job.objects.reap()) == 2
