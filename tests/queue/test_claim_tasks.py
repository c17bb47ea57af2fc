"""Claims of some tasks only."""

import pytest

from pgqueue_django.attempts import Attempt
from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


def claim(*tasks: str, limit: int = 10, depth: int = 100) -> list[Attempt]:
    return Job.objects.claim_tasks(
        "default", tasks=tasks, depth=depth, limit=limit, worker="w", lease=30
    )


def ids(attempts: list[Attempt]) -> list[int]:
    return [attempt.id for attempt in attempts]


def test_takes_jobs_of_these_tasks_most_urgent_first():
    late = factories.queued("a", priority=-1)
    factories.queued("b")
    first = factories.queued("c", priority=1)
    second = factories.queued("a")

    assert ids(claim("a", "c")) == [first.id, second.id, late.id]
    assert factories.states([first.id, second.id, late.id]) == ["running"] * 3


def test_takes_the_most_urgent_when_there_are_more():
    low = factories.queued("a", priority=-1)
    high = factories.queued("a", priority=1)

    assert ids(claim("a", limit=1)) == [high.id]
    assert factories.get(low.id).state == "queued"


def test_looks_at_the_head_only():
    factories.queued("b")
    factories.queued("a")

    assert claim("a", depth=1) == []
    assert len(claim("a", depth=2)) == 1


def test_takes_neither_other_queues_nor_what_is_not_due():
    factories.queued("a", queue="other")
    factories.queued("a", delay=60)
    factories.claimed("a")

    assert claim("a") == []


@pytest.mark.django_db(transaction=True)
def test_skips_rows_that_others_have_locked_and_takes_the_next(connect):
    locked, free = factories.queued("a"), factories.queued("a")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM pgqueue_job WHERE id = %s FOR UPDATE", [locked.id])

        assert ids(claim("a", limit=1)) == [free.id]
