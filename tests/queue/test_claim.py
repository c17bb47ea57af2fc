"""Claiming: what is due, in which order, by whom."""

from datetime import timedelta
from itertools import chain

import pytest
from django.db import connection

from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories
from tests.threads import Started, together
from tests.undoing import undone
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def test_takes_the_highest_priority_first_then_the_earliest_then_the_first():
    low = factories.queued(priority=-5)
    late = factories.queued()
    early = factories.queued()
    high = factories.queued(priority=5)
    factories.tick(late.id, run_at=-10)
    factories.tick(early.id, run_at=-20)
    twin = factories.queued()
    Job.objects.filter(pk=twin.id).update(run_at=factories.get(late.id).run_at)

    order = [high.id, early.id, late.id, twin.id, low.id]
    with undone():
        assert [attempt.id for attempt in factories.claim(limit=9)] == order
    assert [factories.claim(limit=1)[0].id for _ in order] == order


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_earliest_is_first_when_clocks_are_put_back(at_once):
    """Instants come as text, in which a later one may look earlier."""
    earlier, later = factories.queued(), factories.queued()
    for job, at in ((earlier, "00:30"), (later, "01:10")):
        Job.objects.filter(pk=job.id).update(run_at=f"2025-10-26 {at}:00+00")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TimeZone = 'Europe/Berlin'")

    claimed = factories.claim(limit=at_once)
    if at_once == 1:
        after = claimed[0].place
        claimed += Job.objects.claim(
            "default", limit=1, worker="w", lease=60, after=after
        )

    assert [attempt.id for attempt in claimed] == [earlier.id, later.id]
    assert claimed[0].run_at > claimed[1].run_at


def test_takes_the_most_urgent_when_the_limit_is_below_what_waits():
    factories.queued(priority=-1)
    high = factories.queued(priority=1)

    assert [attempt.id for attempt in factories.claim(limit=1)] == [high.id]


def test_an_attempt_tells_all_that_a_worker_needs():
    job = factories.queued(
        "t", args=[1, {"a": "é"}], kwargs={"k": None}, timeout=2.5, max_attempts=7
    )

    (attempt,) = factories.claim()

    assert attempt.id == job.id
    assert (attempt.queue, attempt.task) == ("default", "t")
    assert (attempt.args, attempt.kwargs) == ('[1, {"a": "é"}]', '{"k": null}')
    assert (attempt.number, attempt.max_attempts) == (1, 7)
    assert attempt.timeout_seconds == 2.5


def test_a_claim_writes_all_of_a_lease():
    """LEA-15."""
    attempt = factories.claimed()

    job = factories.get(attempt.id)
    assert (job.state, job.attempts) == (State.RUNNING, 1)
    assert (job.worker, str(job.lease_token)) == (factories.WORKER, attempt.token)
    assert job.claimed_at == job.first_claimed_at
    assert job.lease_expires_at - job.claimed_at == timedelta(seconds=30)


def test_a_second_claim_writes_the_lease_anew():
    """LEA-15: never reaped before its own claim plus lease."""
    first = factories.claimed(max_attempts=9)
    factories.tick(first.id, claimed_at=-600, first_claimed_at=-600)
    Job.objects.retry(first, factories.FAILURE)
    (second,) = factories.claim(worker="other")

    job = factories.get(first.id)
    assert second.number == job.attempts == 2
    assert second.token != first.token
    assert (job.worker, str(job.lease_token)) == ("other", second.token)
    assert job.claimed_at - job.first_claimed_at > timedelta(seconds=599)
    assert Job.objects.reap() == []


def test_each_claim_has_a_token_of_its_own():
    factories.queued_many(4)
    first, second = factories.claim(limit=2), factories.claim(limit=2)

    assert len({attempt.token for attempt in first + second}) == 2
    assert len({attempt.id for attempt in first + second}) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: factories.queued(delay=60),
        factories.succeeded,
        factories.dead,
        factories.cancelled,
        factories.unserved,
        factories.claimed,
        lambda: factories.queued(queue="other"),
    ],
    ids=["scheduled", "succeeded", "dead", "cancelled", "unserved", "running", "queue"],
)
def test_leaves_what_is_not_queued_here(make):
    make()

    assert factories.claim(limit=9) == []


def test_takes_nothing_with_a_limit_of_nothing():
    factories.queued()

    assert factories.claim(limit=0) == []


def test_a_scheduled_job_that_is_due_waits_for_its_promotion():
    job = factories.queued(delay=60)
    factories.tick(job.id, run_at=-1)

    assert factories.claim() == []


@pytest.mark.django_db(transaction=True)
def test_skips_rows_locked_by_another_transaction(connect):
    locked, free = factories.queued_many(2)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [locked])

    assert [attempt.id for attempt in factories.claim(limit=2)] == [free]


@pytest.mark.django_db(transaction=True)
def test_a_limit_is_a_limit_when_rows_are_locked(connect):
    ids = factories.queued_many(10)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = ANY(%s) FOR UPDATE", [ids[:3]])

    assert [attempt.id for attempt in factories.claim(limit=4)] == ids[3:7]


@pytest.mark.django_db(transaction=True)
def test_workers_at_the_same_instant_take_each_job_once(new_session):
    ids = factories.queued_many(300)
    sessions = [new_session() for _ in range(8)]

    def take_all(number: int) -> list[int]:
        queue = Job.objects.on(sessions[number])
        taken: list[int] = []
        for _ in range(40):
            attempts = queue.claim("default", limit=5, worker=f"w{number}", lease=30)
            taken.extend(attempt.id for attempt in attempts)
        return taken

    taken = list(chain.from_iterable(together(take_all, range(8))))

    assert sorted(taken) == ids
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}


@pytest.mark.django_db(transaction=True)
def test_the_waiting_mode_waits_for_a_locked_row(connect, watcher):
    (id_,) = factories.queued_many(1)
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [id_])

    with Started(
        Job.objects.claim,
        "default",
        limit=1,
        worker="w",
        lease=30,
        for_update_wait=True,
    ) as claim:
        wait_until(watcher.blocked)
        assert not claim.done()
        other.execute("COMMIT")

    assert [attempt.id for attempt in claim.result()] == [id_]


def test_a_row_that_python_cannot_read_spoils_no_claim():
    """PAY-07: args and kwargs come as text."""
    ids = factories.queued_many(10)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_job SET args = ('[1' || repeat('0', 5000) || ']')::jsonb"
            " WHERE id = %s",
            [ids[4]],
        )

    attempts = factories.claim(limit=10)

    assert [attempt.id for attempt in attempts] == ids
    assert len(attempts[4].args) == 5_003


def test_a_job_deeper_than_python_reads_spoils_no_claim():
    """PAY-14."""
    ids = factories.queued_many(3)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_job SET args = (repeat('[', 3000) || repeat(']', 3000))"
            "::jsonb WHERE id = %s",
            [ids[1]],
        )

    assert [attempt.id for attempt in factories.claim(limit=3)] == ids


def test_a_claim_is_one_statement(django_assert_num_queries):
    factories.queued_many(20)
    with django_assert_num_queries(1):
        factories.claim(limit=10)


def test_attempts_are_counted_at_the_claim():
    """Rule 3: a job that kills its worker ends up dead."""
    attempt = factories.claimed(max_attempts=2)
    attempt = factories.claimed_again(attempt)
    factories.expire(attempt)
    Job.objects.reap()

    job = factories.get(attempt.id)
    assert (job.state, job.attempts, len(job.errors)) == (State.DEAD, 2, 2)
