"""Finding outcomes that are stored, though their writer had no answer."""

import pytest
from django.db import connection

from pgqueue_django.attempts import Attempt
from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


def recorded(*attempts: Attempt, worker: str = factories.WORKER) -> set[int]:
    return Job.objects.recorded(attempts, worker=worker)


WAYS = {
    "ack": Job.objects.ack,
    "retry": lambda a: Job.objects.retry(a, factories.FAILURE, 60),
    "fail": lambda a: Job.objects.fail(a, factories.FAILURE),
    "cancel_held": lambda a: Job.objects.cancel_held(a, factories.FAILURE),
    "snooze": lambda a: Job.objects.snooze(a, 60),
    "release": Job.objects.release,
    "park": Job.objects.park,
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_an_outcome_is_found(way):
    attempt = factories.claimed()
    assert WAYS[way](attempt)

    assert recorded(attempt) == {attempt.id}


def test_a_lost_lease_is_no_outcome():
    attempt = factories.claimed()
    factories.expire(attempt)
    Job.objects.reap()

    assert recorded(attempt) == set()


def test_an_outcome_of_another_attempt_is_not_ones_own():
    lost = factories.claimed()
    again = factories.claimed_again(lost, worker="other")
    Job.objects.ack(again)

    assert recorded(lost) == set()
    assert recorded(again, worker="other") == {again.id}


def test_a_cancel_from_outside_is_no_outcome():
    attempt = factories.claimed()
    Job.objects.cancel(attempt.id)

    assert recorded(attempt) == set()


def test_a_failure_is_found_though_the_job_went_on():
    attempt = factories.claimed()
    Job.objects.retry(attempt, factories.FAILURE)
    factories.claim(worker="other")

    assert recorded(attempt) == {attempt.id}


def test_a_history_that_somebody_spoiled_stops_nothing():
    """Rule 7."""
    spoiled, sound = factories.claimed_many(2)
    Job.objects.ack(sound)
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE pgqueue_job SET errors = '[1, null, "x", [],
            {"worker": "test-worker", "attempt": "one", "exception": "e"}]'
            WHERE id = %s""",
            [spoiled.id],
        )

    assert recorded(spoiled, sound) == {sound.id}
