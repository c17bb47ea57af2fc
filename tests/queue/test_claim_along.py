"""Claims from several queues in one statement."""

import pytest

from pgqueue_django.attempts import Attempt, Place
from pgqueue_django.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


def claim(*queues: str, limit: int = 10, **after: Place) -> list[Attempt]:
    return Job.objects.claim_along(
        {queue: after.get(queue) for queue in queues}, limit=limit, worker="w", lease=30
    )


def ids(attempts: list[Attempt]) -> list[int]:
    return [attempt.id for attempt in attempts]


def test_the_order_of_queues_comes_before_that_of_jobs():
    urgent = factories.queued(queue="b", priority=9).id
    late = factories.queued(queue="a", priority=-1).id
    first = factories.queued(queue="a").id

    assert ids(claim("a", "b")) == [first, late, urgent]
    assert factories.states([first, late, urgent]) == ["running"] * 3


def test_the_next_queue_gives_what_the_last_one_lacks():
    in_a = factories.queued_many(3, queue="a")
    in_b = factories.queued_many(3, queue="b")
    in_c = factories.queued_many(3, queue="c")

    assert ids(claim("a", "b", "c", limit=5)) == in_a + in_b[:2]
    assert ids(claim("a", "b", "c", limit=5)) == in_b[2:] + in_c
    assert claim("a", "b", "c") == []


def test_each_attempt_knows_its_queue_and_all_share_a_token():
    for queue in ("a", "b"):
        factories.queued(queue=queue, args=[queue])

    attempts = claim("a", "b")

    assert [(one.queue, one.args) for one in attempts] == [
        ("a", '["a"]'),
        ("b", '["b"]'),
    ]
    assert len({one.token for one in attempts}) == 1


def test_each_queue_is_looked_at_from_its_own_place():
    in_a = factories.queued_many(3, queue="a")
    in_b = factories.queued_many(3, queue="b")
    place = Place(0, str(factories.get(in_b[1]).run_at), in_b[1])

    assert ids(claim("a", "b", b=place)) == [*in_a, in_b[2]]


def test_others_and_what_is_not_due_are_left_alone():
    factories.queued(queue="other")
    factories.queued(queue="a", delay=60)
    factories.claimed(queue="b")

    assert claim("a", "b") == []
    assert claim() == []


@pytest.mark.django_db(transaction=True)
def test_locked_rows_are_skipped_and_the_limit_is_one(connect):
    in_a = factories.queued_many(3, queue="a")
    in_b = factories.queued_many(3, queue="b")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM pgqueue_job WHERE id = ANY(%s) FOR UPDATE", [in_a])
        assert ids(claim("a", "b", limit=2)) == in_b[:2]
    assert ids(claim("a", "b", limit=2)) == in_a[:2]


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a\\b", "{a}", "NULL"])
def test_any_name_of_a_queue_will_do(name):
    job = factories.queued(queue=name)

    assert ids(claim("b", name)) == [job.id]
