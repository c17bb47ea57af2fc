"""Idempotency keys: the same call gives the same job, another call is a conflict."""

import pytest
from django.db import connection

from pgqueue_django.exceptions import IdempotencyConflict, PgQueueError
from pgqueue_django.models import Job
from pgqueue_django.sql import producing as sql
from tests import factories

pytestmark = pytest.mark.django_db


def test_the_same_call_gives_the_same_job():
    first = Job.objects.enqueue(factories.spec(args=[1], idempotency_key="k"))
    again = Job.objects.enqueue(factories.spec(args=[1], idempotency_key="k"))

    assert (again.id, again.enqueued_at) == (first.id, first.enqueued_at)
    assert (first.created, again.created) == (True, False)
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    "finished", [factories.succeeded, factories.dead, factories.cancelled]
)
def test_a_finished_job_keeps_its_key_until_it_is_pruned(finished):
    job = finished(idempotency_key="k")
    spec = factories.spec(idempotency_key="k")

    assert Job.objects.enqueue(spec).id == job.id

    factories.tick(job.id, finished_at=-10)
    Job.objects.prune(older_than=5)
    assert Job.objects.enqueue(spec).id != job.id


def test_a_running_job_is_untouched_by_a_replay():
    """CNC-04."""
    attempt = factories.claimed(idempotency_key="k")
    before = factories.get(attempt.id)

    replay = Job.objects.enqueue(
        factories.spec(idempotency_key="k", priority=9, delay=60, max_attempts=1)
    )

    assert replay.id == attempt.id
    after = factories.get(attempt.id)
    assert {f.name: getattr(after, f.name) for f in Job._meta.fields} == {
        f.name: getattr(before, f.name) for f in Job._meta.fields
    }
    assert Job.objects.ack(attempt)


@pytest.mark.parametrize(
    "other",
    [
        {"task": "other"},
        {"args": [2]},
        {"args": [1, 1]},
        {"kwargs": {"a": 1}},
        {"args": ["1"]},
        {"args": [True]},
    ],
    ids=str,
)
def test_another_call_is_a_conflict_that_names_the_job(other):
    job = factories.queued(args=[1], idempotency_key="k")

    with pytest.raises(IdempotencyConflict) as caught:
        Job.objects.enqueue(
            factories.spec(**{"args": [1], "idempotency_key": "k"} | other)
        )

    assert caught.value.job_id == job.id
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1e2}, {"a": 100}),
        ({"a": "é"}, {"a": "\u00e9"}),
    ],
    ids=str,
)
def test_calls_that_are_equal_as_json_are_the_same(stored, given):
    """API-03."""
    job = factories.queued(kwargs=stored, idempotency_key="k")

    replay = Job.objects.enqueue(factories.spec(kwargs=given, idempotency_key="k"))

    assert replay.id == job.id


def test_a_key_counts_within_its_queue():
    first = factories.queued(queue="a", idempotency_key="k")
    second = factories.queued("other", queue="b", idempotency_key="k")

    assert first.id != second.id


def test_keys_differ_by_case_and_by_unicode_form():
    keys = ["k", "K", "\u00e9", "e\u0301", "k%", "k_"]

    assert len({factories.queued(idempotency_key=key).id for key in keys}) == 6


def test_jobs_without_a_key_never_meet():
    assert factories.queued().id != factories.queued().id


def test_a_key_freed_between_the_conflict_and_the_look_is_taken(monkeypatch):
    """CNC-06: the pruner deletes the finished job just then."""
    old = factories.succeeded(idempotency_key="k")
    looks = []

    def prune_first(self, session, spec):
        looks.append(spec)
        Job.objects.filter(pk=old.id).delete()

    monkeypatch.setattr(type(Job.objects), "_find_by_key", prune_first)

    enqueued = Job.objects.enqueue(factories.spec(idempotency_key="k"))

    assert enqueued.created
    assert enqueued.id != old.id
    assert len(looks) == 1


def test_a_key_that_flickers_for_ever_ends_in_a_clear_error(monkeypatch):
    """CNC-06: a bounded loop, and at most a documented exception type."""
    factories.queued(idempotency_key="k")
    monkeypatch.setattr(type(Job.objects), "_find_by_key", lambda *_: None)

    with pytest.raises(PgQueueError, match="idempotency_key: 'k'"):
        Job.objects.enqueue(factories.spec(idempotency_key="k"))


def test_a_replay_sends_no_hint(django_capture_on_commit_callbacks):
    factories.queued(idempotency_key="k")
    with django_capture_on_commit_callbacks() as callbacks:
        Job.objects.enqueue(factories.spec(idempotency_key="k"))

    assert callbacks == []


def test_a_replay_is_two_statements(django_assert_num_queries):
    spec = factories.spec(idempotency_key="k")
    Job.objects.enqueue(spec)
    with django_assert_num_queries(2):
        Job.objects.enqueue(spec)


def test_the_look_says_whether_the_call_is_the_same():
    job = factories.queued("t", args=[1], kwargs={"a": 1}, idempotency_key="k")
    given = {
        "queue": "default", "idempotency_key": "k", "task": "t",
        "args": "[1.0]", "kwargs": '{"a": 1}',
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(sql.FIND_BY_KEY, given)
        assert cursor.fetchall() == [(job.id, job.enqueued_at.timestamp(), True)]
        cursor.execute(sql.FIND_BY_KEY, given | {"task": "u"})
        assert cursor.fetchall() == [(job.id, job.enqueued_at.timestamp(), False)]
