"""Enqueueing one job."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from pgqueue_django import limits
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_job_without_a_time_is_queued_at_once():
    job = factories.queued("shop.email", args=[1, "a"], kwargs={"b": None})

    assert job.state == State.QUEUED
    assert (job.task, job.args, job.kwargs) == ("shop.email", [1, "a"], {"b": None})
    assert (job.queue, job.priority, job.attempts) == ("default", 0, 0)
    assert job.max_attempts == limits.DEFAULT_MAX_ATTEMPTS
    assert job.run_at == job.enqueued_at
    assert job.idempotency_key is None
    assert job.timeout_seconds is None
    assert (job.worker, job.errors, job.result) == ("", [], None)
    assert job.first_claimed_at is job.claimed_at is job.finished_at is None


def test_every_option_is_stored():
    job = factories.queued(
        queue="mail",
        priority=-100,
        max_attempts=10_000,
        timeout=1.5,
        idempotency_key="order-1",
    )

    assert (job.queue, job.priority, job.max_attempts) == ("mail", -100, 10_000)
    assert (job.timeout_seconds, job.idempotency_key) == (1.5, "order-1")


def test_the_answer_is_the_stored_row():
    enqueued = Job.objects.enqueue(factories.spec())

    job = factories.get(enqueued.id)
    assert enqueued.enqueued_at == job.enqueued_at
    assert enqueued.created


def test_a_delay_is_added_to_the_databases_clock():
    job = factories.queued(delay=60)

    assert job.state == State.SCHEDULED
    assert job.run_at - job.enqueued_at == timedelta(seconds=60)


@pytest.mark.parametrize("delay", [0, 0.0, timedelta(0)])
def test_a_delay_of_nothing_is_at_once(delay):
    """TIM-02: delay=0 is the database's now."""
    assert factories.queued(delay=delay).state == State.QUEUED


def test_the_longest_delay_can_be_stored_and_read():
    """TIM-11."""
    job = factories.queued(delay=limits.DELAY_SECONDS_MAX)

    assert job.run_at - job.enqueued_at == timedelta(seconds=limits.DELAY_SECONDS_MAX)


@pytest.mark.parametrize(
    "delay",
    [-1, 1e18, float("inf"), float("nan"), timedelta.max, -timedelta(days=4e8)],
)
def test_a_delay_out_of_bounds_is_refused_before_any_sql(
    delay, django_assert_num_queries
):
    """TIM-11."""
    with django_assert_num_queries(0), pytest.raises(InvalidJob, match="delay"):
        factories.queued(delay=delay)


def test_a_past_run_at_is_due_and_kept():
    past = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    job = factories.queued(run_at=past)

    assert job.state == State.QUEUED
    assert job.run_at == past


def test_a_later_run_at_is_scheduled_to_the_microsecond():
    later = datetime(8999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    job = factories.queued(run_at=later)

    assert job.state == State.SCHEDULED
    assert job.run_at == later


@pytest.mark.parametrize(
    "text", ["żółć 🎉", "a" * limits.TASK_CHARS, "%s %(x)s %", "'; --", "\\", '"']
)
def test_any_name_that_is_allowed_comes_back_as_it_was(text):
    job = factories.queued(text, idempotency_key=text, args=[text], kwargs={text: 1})

    assert job.task == job.idempotency_key == job.args[0] == text
    assert job.kwargs == {text: 1}


def test_arguments_of_the_largest_size_are_stored():
    text = "x" * (limits.ARGUMENTS_BYTES - 4)

    assert factories.queued(args=[text]).args == [text]


def test_a_job_is_one_statement(django_assert_num_queries):
    spec = factories.spec()
    with django_assert_num_queries(1):
        Job.objects.enqueue(spec)


def test_a_session_of_a_worker_enqueues_too(transactional_db, session):
    enqueued = Job.objects.on(session).enqueue(factories.spec(delay=5))

    assert factories.get(enqueued.id).state == State.SCHEDULED


def test_the_clock_of_a_long_transaction_moves_on():
    """Rule 2: the time of the statement counts, not that of BEGIN."""
    moments = []
    for _ in range(2):
        moments.append(factories.queued().enqueued_at)
        moments.append(factories.get(factories.queued_many(1)[0]).enqueued_at)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.01)")

    assert sorted(set(moments)) == moments
