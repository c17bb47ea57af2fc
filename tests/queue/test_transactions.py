"""Enqueueing in the caller's transaction."""

import pytest
from django.db import connection, transaction

from pgqueue_django.attempts import Write
from pgqueue_django.exceptions import IdempotencyConflict, InvalidJob
from pgqueue_django.models import Job
from tests import factories
from tests.undoing import undone

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_a_job_is_visible_exactly_when_the_callers_work_is(session):
    """DJG-15."""
    with transaction.atomic():
        job = factories.queued()
        assert job.id
        assert (
            Job.objects.on(session).claim("default", limit=1, worker="w", lease=30)
            == []
        )
    (attempt,) = Job.objects.on(session).claim("default", limit=1, worker="w", lease=30)

    assert attempt.id == job.id


@pytest.mark.parametrize(
    "enqueue", [factories.queued, lambda: factories.queued_many(3)]
)
def test_a_rolled_back_job_never_existed(enqueue):
    with undone():
        enqueue()

    assert not Job.objects.exists()


def test_a_rolled_back_savepoint_takes_only_its_own_jobs():
    with transaction.atomic():
        kept = factories.queued()
        with undone():
            factories.queued()
            factories.queued_many(2)
        also_kept = factories.queued()

    assert set(Job.objects.all()) == {kept, also_kept}


def test_a_key_of_a_rolled_back_job_is_free():
    with undone():
        factories.queued("a", idempotency_key="k")

    assert Job.objects.enqueue(factories.spec("b", idempotency_key="k")).created


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kwargs": {"note": "ab\0cd"}}, "kwargs.note"),
        ({"kwargs": {"a\0b": 1}}, "kwargs"),
        ({"args": [[1, ["\0"]]]}, r"args\[0\]\[1\]\[0\]"),
        ({"args": ["\ud800"]}, r"args\[0\]"),
        ({"args": [float("nan")]}, r"args\[0\]"),
        ({"args": [float("inf")]}, r"args\[0\]"),
        ({"args": [10**5_000]}, r"args\[0\]"),
        ({"args": [object()]}, r"args\[0\]"),
        ({"kwargs": {"m": {0: "a"}}}, "kwargs.m"),
        ({"args": ["x" * 2_000_000]}, "args"),
        ({"task": "a\0b"}, "task"),
        ({"queue": "a\0b"}, "queue"),
        ({"idempotency_key": "a\0b"}, "idempotency_key"),
        ({"priority": 101}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": float("nan")}, "timeout"),
    ],
)
@pytest.mark.parametrize("enqueue", [factories.queued, factories.queued_two])
def test_a_refused_job_leaves_the_transaction_usable(values, field, enqueue):
    """PAY-01: an error that names the field, before any SQL."""
    with transaction.atomic():
        before = factories.queued()
        with pytest.raises(InvalidJob, match=field):
            enqueue(**values)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]

    assert list(Job.objects.all()) == [before]


def test_a_conflict_leaves_the_transaction_usable():
    factories.queued("a", idempotency_key="k")
    with transaction.atomic():
        with pytest.raises(IdempotencyConflict):
            factories.queued("b", idempotency_key="k")
        job = factories.queued("c")

    assert factories.get(job.id).task == "c"


def test_a_replay_leaves_the_transaction_usable():
    job = factories.queued(idempotency_key="k")
    with transaction.atomic():
        assert factories.queued(idempotency_key="k") == job
        factories.queued()

    assert Job.objects.count() == 2


def test_a_lost_lease_undoes_nothing_of_the_batch():
    """A trap: a batch that raised for one would undo the others' acks."""
    attempts = factories.claimed_many(3)
    Job.objects.cancel(attempts[1].id)
    with transaction.atomic():
        written = Job.objects.ack_many([Write(a, detail="1") for a in attempts])

    assert written.lost == [attempts[1]]
    assert factories.states() == ["succeeded", "cancelled", "succeeded"]


@pytest.mark.django_db(transaction=True)
def test_a_job_can_be_enqueued_in_a_transaction_made_by_hand():
    """A caller with autocommit off commits himself."""
    transaction.set_autocommit(False)
    try:
        job = factories.queued()
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert list(Job.objects.all()) == [job]
