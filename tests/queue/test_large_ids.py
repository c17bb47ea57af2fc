"""Ids past 2^31."""

import pytest
from django.db import connection

from pgqueue_django.attempts import Write
from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db

LAST_INTEGER = 2_147_483_647


@pytest.fixture
def large_ids() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('pgqueue_job', 'id'), %s)",
            [LAST_INTEGER - 5],
        )


@pytest.mark.usefixtures("large_ids")
def test_every_verb_takes_them():
    """PRF-12: batches on both sides of the border."""
    ids = [*factories.queued_many(8), *(factories.queued().id for _ in range(12))]
    assert ids[0] < LAST_INTEGER < ids[-1]

    held = factories.claim(limit=20)
    assert [attempt.id for attempt in held] == ids
    assert len(Job.objects.renew_many(map(Write, held), lease=30).done) == 20
    ways = [
        Job.objects.ack_many,
        Job.objects.retry_many,
        Job.objects.fail_many,
        Job.objects.cancel_held_many,
        Job.objects.snooze_many,
        Job.objects.release_many,
        Job.objects.park_many,
    ]
    for n, write in enumerate(ways):
        few = held[n::10]
        assert write(Write(a, 60.0, "{}") for a in few).done == few
    factories.expire(*held[7::10])
    assert {job.id for job in Job.objects.reap()} == {a.id for a in held[7::10]}
    assert Job.objects.cancel_many([held[8].id, held[18].id]) == {
        held[8].id, held[18].id,
    }  # fmt: skip
    assert Job.objects.requeue_many(a.id for a in held[2::10]) == {
        held[2].id, held[12].id,
    }  # fmt: skip
    for attempt in held[1::10]:
        factories.tick(attempt.id, run_at=-1)
    assert Job.objects.promote() == {"default": 2}
    assert len(
        Job.objects.claim_unserved(
            "default", tasks=["tests.task"], limit=9, worker="w", lease=30
        )
    ) == 2  # fmt: skip
    assert Job.objects.set_aside("default", tasks=[]) > 0


@pytest.mark.usefixtures("large_ids")
def test_a_replay_and_a_conflict_name_them():
    factories.queued_many(10)
    job = factories.queued(idempotency_key="k")

    assert job.id > LAST_INTEGER
    assert factories.queued(idempotency_key="k") == job


def test_the_job_table_has_no_other_sequence():
    """PRF-12: conflicts burn ids of a bigint sequence, and of no other."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT data_type FROM pg_sequences WHERE sequencename LIKE 'pgqueue%%'", {}
        )
        assert set(cursor.fetchall()) == {("bigint",)}
