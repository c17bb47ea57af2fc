"""Jobs of tasks that a worker does not know: set aside, and taken by one that does."""

import pytest

from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories

pytestmark = pytest.mark.django_db


def claim_unserved(*tasks: str, queue: str = "default", limit: int = 10) -> list[int]:
    attempts = Job.objects.claim_unserved(
        queue, tasks=tasks, limit=limit, worker="w", lease=30
    )
    return [attempt.id for attempt in attempts]


def test_unknown_jobs_are_set_aside_and_known_ones_stay():
    known, unknown = factories.queued("known"), factories.queued("unknown")

    assert Job.objects.set_aside("default", tasks=["known", "x"]) == 1

    assert factories.get(known.id).state == State.QUEUED
    job = factories.get(unknown.id)
    assert (job.state, job.attempts, job.errors) == (State.UNSERVED, 0, [])


def test_a_worker_that_knows_no_task_sets_all_aside():
    factories.queued_many(3)

    assert Job.objects.set_aside("default", tasks=[]) == 3


def test_only_the_head_of_one_queue_is_looked_at():
    low = factories.queued("unknown", priority=-1)
    factories.queued("unknown", queue="other")
    high = factories.queued("unknown")

    assert Job.objects.set_aside("default", tasks=["x"], depth=1) == 1
    assert factories.get(high.id).state == State.UNSERVED
    assert factories.get(low.id).state == State.QUEUED


def test_neither_running_nor_finished_nor_scheduled_jobs_are_set_aside():
    factories.succeeded()
    factories.dead()
    factories.queued(delay=60)
    factories.claimed()

    assert Job.objects.set_aside("default", tasks=[]) == 0


def test_a_worker_that_knows_the_task_claims_it():
    job = factories.unserved(task="known")

    (attempt,) = Job.objects.claim_unserved(
        "default", tasks=["x", "known"], limit=5, worker="w", lease=30
    )

    assert (attempt.id, attempt.number) == (job.id, 1)
    assert factories.get(job.id).state == State.RUNNING
    assert Job.objects.ack(attempt)


def test_no_claim_takes_a_job_set_aside():
    factories.unserved()

    assert factories.claim() == []


def test_a_claim_of_those_leaves_other_tasks_queues_and_states():
    factories.unserved(task="other")
    factories.unserved(task="known", queue="elsewhere")
    factories.queued("known")

    assert claim_unserved("known") == []
    assert claim_unserved() == []


def test_the_oldest_of_each_task_come_first_up_to_the_limit():
    a = [factories.unserved(task="a").id for _ in range(3)]
    b = [factories.unserved(task="b").id for _ in range(3)]

    assert sorted(claim_unserved("a", "b", limit=4)) == [*a, b[0]]
    assert claim_unserved("a", "b", limit=1) == [b[1]]


def test_a_task_named_twice_is_claimed_once():
    ids = [factories.unserved(task="a").id for _ in range(2)]

    assert claim_unserved("a", "a", limit=9) == ids


@pytest.mark.django_db(transaction=True)
def test_skips_rows_locked_by_another_transaction(connect):
    locked, free = (factories.unserved(task="a").id for _ in range(2))
    queued = factories.queued("unknown").id
    other = connect()
    other.execute("BEGIN")
    other.execute(
        "SELECT 1 FROM pgqueue_job WHERE id = ANY(%s) FOR UPDATE", [[locked, queued]]
    )

    assert claim_unserved("a", limit=2) == [free]
    assert Job.objects.set_aside("default", tasks=["a"]) == 0
