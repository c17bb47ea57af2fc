"""What the ledger finds: each wrong that it is there for is done, and must be told."""

import json
from uuid import uuid4

import pytest

from bench.judging import judge
from pgqueue_django.models import Job
from tests import factories

ME = "host-1-1234"


def claim(limit=1, worker=ME):
    return factories.claim(limit=limit, worker=worker)


@pytest.fixture
def run_one(work):
    """Return a function that claims, works and acks as a worker does."""

    def run():
        (attempt,) = claim()
        assert Job.objects.ack(attempt, json.dumps(work(attempt)))
        return attempt

    return run


def test_a_run_without_faults_is_right(books, run_one):
    factories.queued_many(3)
    for _ in range(3):
        run_one()

    verdict = judge(books)

    assert verdict.ok
    assert (verdict.jobs, verdict.succeeded, verdict.lost) == (3, 3, 0)
    assert (verdict.interrupted, verdict.duplicates, verdict.delivered_twice) == (
        0,
    ) * 3
    assert verdict.problems == ()


def test_every_verb_agrees_with_the_counters(books, run_one):
    ids = factories.queued_many(6)
    released, retried, failed, dropped, *_ = claim(limit=4)
    Job.objects.release(released)
    Job.objects.retry(retried, factories.FAILURE)
    Job.objects.fail(failed, factories.FAILURE)
    Job.objects.cancel_held(dropped, factories.FAILURE)
    Job.objects.cancel(ids[5])
    Job.objects.requeue(failed.id)
    for _ in range(4):
        run_one()

    verdict = judge(books)

    assert verdict.ok, verdict.problems
    assert verdict.ends == {"succeeded": 4, "cancelled": 2}


def test_an_interrupted_attempt_may_work_twice(books, work, run_one):
    factories.queued_many(1)
    (first,) = claim()
    work(first)
    factories.expire(first)
    Job.objects.reap()
    run_one()

    verdict = judge(books)

    assert verdict.ok, verdict.problems
    assert (verdict.interrupted, verdict.delivered_twice) == (1, 1)


def test_work_done_twice_by_a_worker_that_nothing_hurt_is_a_duplicate(
    books, work, run_one, by_hand
):
    factories.queued_many(1)
    (first,) = claim()
    work(first)
    factories.expire(first)
    Job.objects.reap()
    run_one()
    by_hand("INSERT INTO bench_worker VALUES (%s, 1)", [ME])

    verdict = judge(books, hurt=[2])

    assert (verdict.ok, verdict.duplicates) == (False, 1)


def test_a_job_in_the_wrong_state_is_lost(books, run_one):
    factories.queued_many(2)
    run_one()

    verdict = judge(books)

    assert (verdict.ok, verdict.lost) == (False, 1)
    assert judge(books, ends={"tests.task": "queued"}).lost == 1


def test_an_acknowledged_job_without_a_row_is_lost(books):
    verdict = judge(books, acknowledged=[7])

    assert (verdict.ok, verdict.jobs, verdict.lost) == (False, 1, 1)


def test_a_success_without_its_work_is_lost(books, work):
    factories.queued_many(1)
    (attempt,) = claim()
    token = work(attempt, to_its_end=False)
    Job.objects.ack(attempt, json.dumps(token))

    assert judge(books).lost == 1


@pytest.mark.parametrize("column", ["result", "errors"])
def test_an_outcome_of_another_token_is_a_stale_write(books, work, by_hand, column):
    factories.queued_many(1)
    (attempt,) = claim()
    work(attempt)
    said = json.dumps(str(uuid4()))
    values = {
        "result": f"state = 'succeeded', result = '{said}'",
        "errors": f"state = 'dead', errors = '[{{\"message\": {said}}}]'",
    }
    by_hand(
        f"UPDATE pgqueue_job SET {values[column]}, lease_token = NULL,"
        " lease_expires_at = NULL, finished_at = now()"
    )

    assert judge(books).stale_writes_accepted == 1


def test_a_claim_of_what_runs_or_is_over_is_a_stale_write(books, run_one, by_hand):
    factories.queued_many(1)
    run_one()
    for _ in range(2):
        by_hand(
            "UPDATE pgqueue_job SET state = 'running', finished_at = NULL,"
            " lease_token = gen_random_uuid(), lease_expires_at = now()"
        )

    assert judge(books).stale_writes_accepted == 2


def test_attempts_that_the_marks_do_not_know_disagree(books, run_one, by_hand):
    factories.queued_many(1)
    run_one()
    by_hand("UPDATE bench_mark SET attempt = 2")

    verdict = judge(books)

    assert not verdict.ok
    assert not verdict.attempts_agree


def test_a_counter_that_missed_something_disagrees(books, run_one, by_hand):
    factories.queued_many(1)
    run_one()
    by_hand("DELETE FROM pgqueue_counter WHERE event = 'succeeded'")

    verdict = judge(books)

    assert not verdict.counters_agree
    assert verdict.problems == ("counters: succeeded: 0, but 1 turns",)
