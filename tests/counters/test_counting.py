"""What is counted, and when."""

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

import pgqueue_django
from pgqueue_django import histograms
from pgqueue_django.attempts import Write
from pgqueue_django.events import Event
from pgqueue_django.models import Counter, Job
from pgqueue_django.sql.counters import counted
from tests import factories
from tests.counters.reading import counts, totals
from tests.threads import Started
from tests.undoing import undone

pytestmark = pytest.mark.django_db

INFINITE = float("inf")


def test_a_success_is_a_start_and_an_end():
    factories.succeeded()

    assert counts() == {"started": 1, "succeeded": 1}


@pytest.mark.parametrize(
    ("verb", "event"),
    [
        ("retry", "retried"),
        ("fail", "failed"),
        ("cancel_held", "cancelled_by_handler"),
    ],
)
def test_every_end_of_an_attempt_is_counted(verb, event):
    getattr(Job.objects, verb)(factories.claimed(), factories.FAILURE)

    assert counts() == {"started": 1, event: 1}


@pytest.mark.parametrize("verb", ["release", "park", "snooze", "renew"])
def test_what_ends_no_attempt_is_not(verb):
    more: Any = {"snooze": {"delay": 1.0}, "renew": {"lease": 5}}.get(verb, {})
    assert getattr(Job.objects, verb)(factories.claimed(), **more)

    assert counts() == {"started": 1}


def test_a_refused_write_is_not_counted():
    attempt = factories.claimed()
    assert Job.objects.ack(attempt)

    assert not Job.objects.ack(attempt)
    assert not Job.objects.fail(attempt, factories.FAILURE)
    assert counts() == {"started": 1, "succeeded": 1}


def test_only_the_first_claim_of_a_job_is_a_start():
    attempt = factories.claimed()
    Job.objects.release(attempt)
    (again,) = factories.claim()
    Job.objects.retry(again, factories.FAILURE)
    (last,) = factories.claim()
    Job.objects.fail(last, factories.FAILURE)
    Job.objects.requeue(last.id)
    factories.claim()

    assert counts() == {"started": 1, "retried": 1, "failed": 1, "requeued": 1}


def test_lost_leases_are_counted_by_how_they_end():
    attempts = [factories.claimed(max_attempts=n) for n in (1, 2, 2)]
    factories.expire(*attempts)

    Job.objects.reap()

    assert counts() == {"started": 3, "lease_expired": 2, "lease_expired_dead": 1}


def test_a_dead_workers_leases_are_counted():
    factories.claimed()

    Job.objects.reap_dead_worker(factories.WORKER)

    assert counts() == {"started": 1, "lease_expired": 1}


def test_a_cancel_is_counted_by_whether_the_job_was_ever_started():
    factories.cancelled()
    attempt = factories.claimed()
    Job.objects.cancel(attempt.id)
    released = factories.claimed()
    Job.objects.release(released)
    Job.objects.cancel(released.id)
    assert not Job.objects.cancel(attempt.id)

    assert counts() == {"started": 2, "cancelled": 2, "cancelled_unstarted": 1}


def test_counts_are_by_queue_and_task():
    for queue, task in (("a", "t"), ("a", "u"), ("b", "t")):
        factories.succeeded(queue=queue, task=task)

    assert counts(queue="a")["succeeded"] == 2
    assert counts(task="t")["succeeded"] == 2
    assert counts(queue="b", task="u") == {}


def test_jobs_of_several_queues_are_reaped_and_cancelled_by_one_statement():
    attempts = [factories.claimed(queue=queue) for queue in "aab"]
    factories.expire(*attempts[1:])
    Job.objects.reap()
    Job.objects.cancel_many(attempt.id for attempt in attempts)

    assert counts(queue="a") == {"started": 2, "lease_expired": 1, "cancelled": 2}
    assert counts(queue="b") == {"started": 1, "lease_expired": 1, "cancelled": 1}


def test_counts_outlive_the_jobs():
    """MET-01."""
    for _ in range(100):
        factories.succeeded()
    before = counts()
    Job.objects.filter(pk__in=Job.objects.values("pk")[:2]).delete()
    assert Job.objects.prune(older_than=-1, limit=90) == 90

    assert counts() == before == {"started": 100, "succeeded": 100}


def test_what_is_undone_was_never_counted():
    attempt = factories.claimed()
    with undone():
        Job.objects.ack(attempt)
        Job.objects.cancel(factories.queued(queue="b").id)

    assert counts() == {"started": 1}


def test_it_can_be_switched_off(settings):
    settings.PGQUEUE = {"COUNTERS": False}
    factories.succeeded()
    factories.dead()
    factories.cancelled()
    factories.expire(factories.claimed())
    Job.objects.reap()

    assert counts() == {}


def test_producers_write_no_counter():
    factories.queued_many(5)

    assert counts() == {}


def test_enqueued_is_what_started_or_was_cancelled_before_or_still_waits():
    factories.succeeded()
    factories.cancelled()
    factories.dead()
    factories.queued(queue="b", delay=60)
    factories.claimed(queue="c")

    found = counts()
    waits = Job.objects.filter(first_claimed_at=None, finished_at=None).count()
    assert found["started"] + found["cancelled_unstarted"] + waits == 5


# --- times ----------------------------------------------------------------------------


def only(event: str) -> Any:
    (total,) = (total for total in totals() if total.event == event)
    return total


@pytest.mark.parametrize(
    ("run_at", "enqueued_at", "wait"),
    [(-7, -7, 7), (-7, -100, 7), (-100, -7, 7), (-100, -4_000, 100)],
)
def test_the_wait_is_from_when_the_job_could_run(run_at, enqueued_at, wait):
    job = factories.queued()
    factories.tick(job.id, run_at=run_at, enqueued_at=enqueued_at)
    factories.claim()

    started = only("started")
    assert wait * 10**6 <= started.microseconds < (wait + 5) * 10**6
    assert started.le == {7: 10, 100: 300}[wait]


def test_the_run_time_is_from_the_claim_to_the_recorded_end():
    attempt = factories.claimed()
    factories.tick(attempt.id, claimed_at=-40)
    Job.objects.fail(attempt, factories.FAILURE)

    failed = only("failed")
    assert 40 * 10**6 <= failed.microseconds < 45 * 10**6
    assert failed.le == 60


def test_what_has_no_time_is_in_the_last_bucket():
    factories.cancelled()

    assert only("cancelled_unstarted")[3:] == (INFINITE, 1, 0)


def test_a_clock_that_went_back_makes_no_negative_time():
    attempt = factories.claimed()
    factories.tick(attempt.id, claimed_at=100)
    Job.objects.ack(attempt)

    assert only("succeeded")[3:] == (histograms.BOUNDS[0], 1, 0)


@pytest.mark.parametrize("bound", histograms.BOUNDS)
def test_a_bound_belongs_to_the_bucket_below_it(bound):
    """Prometheus' ``le``. The statement's clock stands still, here."""
    microseconds = round(bound * 10**6)
    with connection.cursor() as cursor:
        for number in (microseconds, microseconds + 1):
            statement = (
                "WITH given (task, seconds) AS (VALUES ('t', %(seconds)s::float8))"
                + counted("'succeeded'", of="given")
                + "SELECT 1"
            )
            seconds = number / 10**6
            cursor.execute(
                statement, {"seconds": seconds, "queue": "q", "counted": True}
            )

    following = (*histograms.BOUNDS[1:], INFINITE)
    above = dict(zip(histograms.BOUNDS, following, strict=True))[bound]
    assert {total.le: total.microseconds for total in totals()} == {
        bound: microseconds,
        above: microseconds + 1,
    }


def test_the_last_bucket_has_no_bound():
    attempt = factories.claimed()
    factories.tick(attempt.id, claimed_at=-5_000)
    Job.objects.ack(attempt)

    assert only("succeeded").le == INFINITE


def test_bounds_rise():
    assert list(histograms.BOUNDS) == sorted(set(histograms.BOUNDS))


# --- rows -----------------------------------------------------------------------------


def test_a_batch_is_one_row_for_each_event_and_bucket():
    attempts = factories.claimed_many(50)
    Job.objects.ack_many(map(Write, attempts))

    assert Counter.objects.filter(event="succeeded").count() == 1
    assert Counter.objects.filter(event="started").count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_open_transaction_holds_up_nobody_elses_counts(session):
    """Each session has rows of its own."""
    first, second = (factories.queued() for _ in range(2))
    other = Job.objects.on(session)
    with transaction.atomic():
        Job.objects.cancel(first.id)
        with Started(other.cancel, second.id) as cancel:
            assert cancel.result()

    assert counts() == {"cancelled_unstarted": 2}
    assert Counter.objects.values("shard").distinct().count() == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": -1},
        {"microseconds": -1},
        {"le": float("nan")},
        {"le": 0},
        {"event": "lost"},
        {"grain": "week"},
    ],
)
def test_the_table_refuses_what_could_not_be_shown(wrong):
    """PAY-06."""
    factories.cancelled()

    with pytest.raises(IntegrityError), transaction.atomic():
        Counter.objects.update(**wrong)


def test_all_events_are_counted_somewhere():
    folder = Path(pgqueue_django.__file__).with_name("sql")
    text = "".join(path.read_text() for path in folder.glob("*.py"))

    assert [event for event in Event if f"'{event}'" not in text] == []
