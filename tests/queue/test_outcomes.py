"""What each write by the holder leaves in the row."""

import json
from datetime import timedelta

import pytest
from django.db import DataError, transaction

from pgqueue_django import limits
from pgqueue_django.attempts import Write
from pgqueue_django.backoff import Backoff
from pgqueue_django.failures import Failure
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db


def assert_lease_given_up(job: Job) -> None:
    assert (job.lease_token, job.lease_expires_at) == (None, None)


# --- ack ------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [None, 0, 'é"\\', [1, {"a": None}], {}, 1.5])
def test_an_ack_stores_the_result(result):
    attempt = factories.claimed()

    assert Job.objects.ack(attempt, json.dumps(result))

    job = factories.get(attempt.id)
    assert (job.state, job.result, job.errors) == (State.SUCCEEDED, result, [])
    assert job.finished_at >= job.claimed_at
    assert (job.worker, job.attempts) == (factories.WORKER, 1)
    assert_lease_given_up(job)


def test_an_ack_without_a_detail_stores_no_result():
    attempt = factories.claimed()
    Job.objects.ack_many([Write(attempt)])

    job = factories.get(attempt.id)
    assert (job.state, job.result) == (State.SUCCEEDED, None)


def test_each_of_a_batch_gets_its_own_result():
    attempts = factories.claimed_many(30)
    Job.objects.ack_many(Write(a, detail=str(a.id)) for a in reversed(attempts))

    assert all(job.result == job.id for job in Job.objects.all())


def test_a_result_of_the_largest_size_is_stored():
    attempt = factories.claimed()
    text = "x" * (limits.RESULT_BYTES - 2)

    assert Job.objects.ack(attempt, json.dumps(text))
    assert factories.get(attempt.id).result == text


def test_a_result_that_is_no_json_writes_nothing_of_its_batch():
    """Rule 7: the completer then writes them one by one."""
    good, bad = factories.claimed_many(2)

    with pytest.raises(DataError), transaction.atomic():
        Job.objects.ack_many([Write(good, detail="1"), Write(bad, detail="NaN")])

    assert factories.states() == [State.RUNNING] * 2
    assert Job.objects.ack(good, "1")


# --- retry ----------------------------------------------------------------------------


def test_a_retry_with_a_delay_waits_for_it():
    attempt = factories.claimed()

    assert Job.objects.retry(attempt, factories.FAILURE, delay=60)

    job = factories.get(attempt.id)
    assert (job.state, job.attempts, job.finished_at) == (State.SCHEDULED, 1, None)
    assert 59 < factories.seconds_from_now(job.id, "run_at") <= 60
    assert_lease_given_up(job)


def test_a_retry_without_a_delay_waits_in_the_queue():
    attempt = factories.claimed()
    Job.objects.retry(attempt, factories.FAILURE)

    (again,) = factories.claim()
    assert (again.id, again.number) == (attempt.id, 2)


def test_each_of_a_batch_gets_its_own_delay_and_failure():
    attempts = factories.claimed_many(3)
    Job.objects.retry_many(
        Write(a, 100.0 * n, Failure("E", str(n), "").as_json())
        for n, a in enumerate(attempts)
    )

    for n, attempt in enumerate(attempts):
        job = factories.get(attempt.id)
        ahead = factories.seconds_from_now(job.id, "run_at")
        assert 100 * n - 5 < ahead <= 100 * n
        assert job.errors[0]["message"] == str(n)
    assert factories.states() == ["queued", "scheduled", "scheduled"]


@pytest.mark.parametrize("number", [1, 30, 31, 32, 63, 64, 1_023, 1_100, 2_000])
def test_a_retry_never_fails_because_of_its_delay(number):
    """TIM-12: jitter and the longest cap."""
    attempt = factories.claimed(max_attempts=2_000)
    Job.objects.filter(pk=attempt.id).update(attempts=number)
    delay = Backoff(cap=limits.DELAY_SECONDS_MAX).delay(number)

    assert Job.objects.retry(attempt, factories.FAILURE, delay)
    assert 0 <= delay <= limits.DELAY_SECONDS_MAX
    assert factories.get(attempt.id).state == State.SCHEDULED


# --- what a failure leaves ------------------------------------------------------------


def test_a_failure_is_kept_with_its_attempt_and_worker():
    attempt = factories.claimed()
    Job.objects.retry(attempt, factories.FAILURE)

    job = factories.get(attempt.id)
    (error,) = job.errors
    assert error.pop("at")
    assert error == {
        "attempt": 1,
        "worker": factories.WORKER,
        "exception": "tests.Broken",
        "message": "it broke",
        "traceback": "Traceback …",
    }
    assert job.worker == ""


def test_failures_are_kept_newest_last():
    attempt = factories.claimed()
    Job.objects.retry(attempt, factories.FAILURE)
    (again,) = factories.claim(worker="second")
    Job.objects.fail(again, factories.FAILURE)

    errors = factories.get(attempt.id).errors
    assert [error["attempt"] for error in errors] == [1, 2]
    assert [error["worker"] for error in errors] == [factories.WORKER, "second"]


def test_the_oldest_failure_gives_way():
    """PAY-15: the history is bounded."""
    factories.queued(max_attempts=100)
    for _ in range(limits.ERRORS_KEPT + 5):
        (attempt,) = factories.claim()
        Job.objects.retry(attempt, factories.FAILURE)

    errors = factories.get(attempt.id).errors
    assert [error["attempt"] for error in errors] == list(range(6, 26))


def test_a_row_stays_below_its_bound_whatever_the_failures():
    """PAY-15: 20 errors of the largest size."""
    failure = Failure("E" * 9_000_000, "é" * 9_000_000, "\0" * 9_000_000).as_json()
    factories.queued(max_attempts=100)
    for _ in range(limits.ERRORS_KEPT + 1):
        (attempt,) = factories.claim()
        assert Job.objects.retry(attempt, failure)

    assert len(json.dumps(factories.get(attempt.id).errors)) < 2_000_000


def test_a_failure_with_unstorable_text_is_stored():
    """Rule 8."""
    attempt = factories.claimed()
    failure = Failure("a\0b", "c\ud800d", "e\udfff\0")

    assert Job.objects.fail(attempt, failure.as_json())
    error = factories.get(attempt.id).errors[0]
    assert (error["exception"], error["message"]) == ("a\ufffdb", "c\ufffdd")


# --- the others -----------------------------------------------------------------------


def test_a_failed_job_is_dead():
    attempt = factories.claimed()

    assert Job.objects.fail(attempt, factories.FAILURE)

    job = factories.get(attempt.id)
    assert (job.state, job.attempts, len(job.errors)) == (State.DEAD, 1, 1)
    assert job.finished_at is not None
    assert_lease_given_up(job)
    assert factories.claim() == []


def test_a_handler_cancels_its_job_with_a_reason():
    attempt = factories.claimed()

    assert Job.objects.cancel_held(attempt, factories.FAILURE)

    job = factories.get(attempt.id)
    assert (job.state, job.errors[0]["message"]) == (State.CANCELLED, "it broke")
    assert job.finished_at is not None
    assert_lease_given_up(job)


def test_a_snooze_gives_the_attempt_back():
    attempt = factories.claimed()

    assert Job.objects.snooze(attempt, 60)

    job = factories.get(attempt.id)
    assert (job.state, job.attempts, job.errors) == (State.SCHEDULED, 0, [])
    assert 59 < factories.seconds_from_now(job.id, "run_at") <= 60
    assert job.worker == ""
    assert_lease_given_up(job)


def test_a_snooze_of_nothing_waits_in_the_queue():
    attempt = factories.claimed()
    Job.objects.snooze(attempt, 0)

    assert factories.claim()[0].number == 1


def test_a_release_gives_back_the_attempt_and_the_place():
    first = factories.claimed()
    before = factories.get(first.id).run_at
    factories.queued()

    assert Job.objects.release(first)

    job = factories.get(first.id)
    assert (job.state, job.attempts, job.run_at) == (State.QUEUED, 0, before)
    assert (job.worker, job.errors) == ("", [])
    assert_lease_given_up(job)
    (again,) = factories.claim()
    assert (again.id, again.number) == (first.id, 1)


def test_a_park_gives_the_attempt_back():
    attempt = factories.claimed()

    assert Job.objects.park(attempt)

    job = factories.get(attempt.id)
    assert (job.state, job.attempts, job.errors) == (State.UNSERVED, 0, [])
    assert_lease_given_up(job)


@pytest.mark.parametrize("verb", ["snooze", "release", "park"])
def test_attempts_given_back_never_fall_below_none(verb):
    attempt = factories.claimed()
    Job.objects.filter(pk=attempt.id).update(attempts=0)

    written = {
        "snooze": lambda: Job.objects.snooze(attempt, 0),
        "release": lambda: Job.objects.release(attempt),
        "park": lambda: Job.objects.park(attempt),
    }[verb]()

    assert written
    assert factories.get(attempt.id).attempts == 0


def test_the_first_claim_is_remembered_through_it_all():
    attempt = factories.claimed()
    first = factories.get(attempt.id).first_claimed_at
    Job.objects.retry(attempt, factories.FAILURE)
    (again,) = factories.claim()
    Job.objects.ack(again)

    job = factories.get(attempt.id)
    assert job.first_claimed_at == first
    assert job.claimed_at > first
    assert job.finished_at - job.enqueued_at < timedelta(minutes=5)
