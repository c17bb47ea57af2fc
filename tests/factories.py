"""Jobs at every station of their lives: spec, queued, claimed, and how it went on.

Each step calls the one before it and the queue's own verb, so that a job is never in a
state that the product cannot bring about. ``tick`` moves a row's clock instead of
waiting.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection

from pgqueue_django.attempts import Attempt
from pgqueue_django.failures import Failure
from pgqueue_django.models import Job
from pgqueue_django.specs import JobSpec

WORKER = "test-worker"
LEASE = 30.0
FAILURE = Failure("tests.Broken", "it broke", "Traceback …").as_json()


def spec(task: str = "tests.task", **values: Any) -> JobSpec:
    """Return a checked spec."""
    return JobSpec.build(task=task, **values)


def queued(task: str = "tests.task", **values: Any) -> Any:
    """Return a job that waits; ``scheduled`` when it has a delay or a later run_at."""
    return get(Job.objects.enqueue(spec(task, **values)).id)


def queued_many(count: int, **values: Any) -> list[int]:
    """Return the ids of jobs that wait, first one first."""
    return Job.objects.enqueue_many(spec(**values) for _ in range(count))


def queued_two(**values: Any) -> list[int]:
    """Return the ids of two jobs of one batch."""
    return queued_many(2, **values)


def claim(
    queue: str = "default",
    limit: int = 1,
    worker: str = WORKER,
    lease: float = LEASE,
) -> list[Attempt]:
    """Claim what waits already."""
    return Job.objects.claim(queue, limit=limit, worker=worker, lease=lease)


def claimed(task: str = "tests.task", **values: Any) -> Attempt:
    """Return the first attempt of a new job, alone in its queue."""
    job = queued(task, **values)
    (attempt,) = claim(job.queue)
    assert attempt.id == job.id
    return attempt


def claimed_many(count: int, **values: Any) -> list[Attempt]:
    """Return attempts of new jobs of one queue, all under one token."""
    queued_many(count, **values)
    return claim(values.get("queue", "default"), limit=count)


def claimed_again(attempt: Attempt, worker: str = "other-worker") -> Attempt:
    """Let the lease end, and return another worker's attempt of the same job."""
    expire(attempt)
    Job.objects.reap()
    tick(attempt.id, run_at=-3_600)
    Job.objects.promote()
    (again,) = claim(attempt.queue, worker=worker)
    assert again.id == attempt.id
    return again


def succeeded(**values: Any) -> Any:
    """Return a job that has succeeded."""
    attempt = claimed(**values)
    assert Job.objects.ack(attempt, '"done"')
    return get(attempt.id)


def dead(**values: Any) -> Any:
    """Return a job that has failed for good."""
    attempt = claimed(**values)
    assert Job.objects.fail(attempt, FAILURE)
    return get(attempt.id)


def cancelled(**values: Any) -> Any:
    """Return a job that was cancelled before a claim."""
    job = queued(**values)
    assert Job.objects.cancel(job.id)
    return get(job.id)


def unserved(**values: Any) -> Any:
    """Return a job that a worker has set aside."""
    attempt = claimed(**values)
    assert Job.objects.park(attempt)
    return get(attempt.id)


def expire(*attempts: Attempt) -> None:
    """Let leases have ended a second ago."""
    for attempt in attempts:
        tick(attempt.id, lease_expires_at=-1)


def tick(id_: int, **seconds: float) -> None:
    """Set instants of a row to so many seconds from the database's now."""
    with connection.cursor() as cursor:
        for column, offset in seconds.items():
            cursor.execute(
                f"UPDATE pgqueue_job SET {column} ="
                " statement_timestamp() + make_interval(secs => %s) WHERE id = %s",
                [offset, id_],
            )


def get(id_: int) -> Any:
    """Return a row as it is now; Any spares tests to ask each instant for None."""
    return Job.objects.get(pk=id_)


def states(ids: Sequence[int] | None = None) -> list[str]:
    """Return the states of jobs, in the order of their ids."""
    jobs = Job.objects.order_by("id")
    chosen = jobs if ids is None else jobs.filter(pk__in=ids)
    return list(chosen.values_list("state", flat=True))


def seconds_from_now(id_: int, column: str) -> float:
    """Return how far ahead of the database's now an instant of a row is."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT extract(epoch FROM {column} - statement_timestamp())::float8"
            " FROM pgqueue_job WHERE id = %s",
            [id_],
        )
        seconds: float = cursor.fetchall()[0][0]
    return seconds
