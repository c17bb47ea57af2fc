"""Renewing leases."""

from typing import Any

import pytest
from django.db import connection

from pgqueue_django.attempts import Write
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_lease_lasts_from_now_on():
    attempt = factories.claimed()
    factories.tick(attempt.id, lease_expires_at=5)

    assert Job.objects.renew(attempt, lease=60)

    assert 59 < factories.seconds_from_now(attempt.id, "lease_expires_at") <= 60


def test_a_renewal_can_shorten_a_lease():
    attempt = factories.claimed()

    Job.objects.renew(attempt, lease=1)

    assert factories.seconds_from_now(attempt.id, "lease_expires_at") <= 1


def test_a_renewal_changes_nothing_else():
    attempt = factories.claimed()
    before: dict[str, Any] = dict(Job.objects.values().get(pk=attempt.id))

    Job.objects.renew(attempt, lease=60)

    after: dict[str, Any] = dict(Job.objects.values().get(pk=attempt.id))
    assert after.pop("lease_expires_at") > before.pop("lease_expires_at")
    assert after == before
    assert after["state"] == State.RUNNING


def test_a_renewal_touches_no_index():
    """A HOT update: the expiry is in no index, and the page has room."""
    attempts = factories.claimed_many(3)
    with connection.cursor() as cursor:
        counted = "SELECT pg_stat_get_xact_tuples_hot_updated('pgqueue_job'::regclass)"
        cursor.execute(counted)
        before = cursor.fetchall()[0][0]
        Job.objects.renew_many(map(Write, attempts), lease=60)
        cursor.execute(counted)
        assert cursor.fetchall()[0][0] - before == 3


def test_all_leases_of_a_process_are_one_statement_a_queue(django_assert_num_queries):
    attempts = [
        *factories.claimed_many(40, queue="a"),
        *factories.claimed_many(40, queue="b"),
    ]
    # Two, and a savepoint around them.
    with django_assert_num_queries(2 + 2):
        assert len(Job.objects.renew_many(map(Write, attempts), lease=30).done) == 80
