"""The fence: only who holds a job's lease can write to it.

Each test here is true of every write by a worker.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from pgqueue_django.attempts import Attempt, Write, Written
from pgqueue_django.models import Job
from pgqueue_django.sql import holding as sql
from pgqueue_django.states import State
from tests import factories
from tests.threads import Started, together
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

Verb = Callable[[list[Attempt]], Written]


def _writes(attempts: list[Attempt]) -> list[Write]:
    return [Write(attempt, 0.0, factories.FAILURE) for attempt in attempts]


VERBS: dict[str, Verb] = {
    "renew": lambda attempts: Job.objects.renew_many(_writes(attempts), lease=60),
    "ack": lambda attempts: Job.objects.ack_many(_writes(attempts)),
    "retry": lambda attempts: Job.objects.retry_many(_writes(attempts)),
    "fail": lambda attempts: Job.objects.fail_many(_writes(attempts)),
    "cancel_held": lambda attempts: Job.objects.cancel_held_many(_writes(attempts)),
    "snooze": lambda attempts: Job.objects.snooze_many(_writes(attempts)),
    "release": lambda attempts: Job.objects.release_many(_writes(attempts)),
    "park": lambda attempts: Job.objects.park_many(_writes(attempts)),
}


@pytest.fixture(params=sorted(VERBS))
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


def row(id_: int) -> dict[str, Any]:
    return dict(Job.objects.values().get(pk=id_))


def test_the_holder_writes(verb):
    attempt = factories.claimed()

    assert verb([attempt]) == Written([attempt], [], [])


def test_a_lost_lease_writes_nothing(verb):
    """LEA-16: another worker has the job now."""
    lost = factories.claimed()
    factories.claimed_again(lost)
    before = row(lost.id)

    assert verb([lost]) == Written([], [lost], [])
    assert row(lost.id) == before


def test_a_job_that_finished_elsewhere_stays_as_it_is(verb):
    """LEA-16: B has succeeded when A wakes up."""
    lost = factories.claimed()
    again = factories.claimed_again(lost)
    assert Job.objects.ack(again, '"by B"')
    before = row(lost.id)

    assert verb([lost]) == Written([], [lost], [])
    assert row(lost.id) == before
    assert before["result"] == "by B"


def test_a_job_that_waits_again_stays_as_it_is(verb):
    lost = factories.claimed()
    factories.expire(lost)
    Job.objects.reap()
    before = row(lost.id)

    assert verb([lost]) == Written([], [lost], [])
    assert row(lost.id) == before


def test_a_cancelled_job_stays_as_it_is(verb):
    attempt = factories.claimed()
    Job.objects.cancel(attempt.id)
    before = row(attempt.id)

    assert verb([attempt]) == Written([], [attempt], [])
    assert row(attempt.id) == before


def test_a_job_that_is_gone_is_lost(verb):
    attempt = factories.claimed()
    Job.objects.all().delete()

    assert verb([attempt]) == Written([], [attempt], [])


@pytest.mark.parametrize("wrong", ["token", "queue", "id"])
def test_each_part_of_the_fence_counts(verb, wrong):
    """Rule 1: (queue, id, token)."""
    attempt = factories.claimed()
    value: Any = {"token": str(uuid4()), "queue": "other", "id": attempt.id + 1}[wrong]
    impostor = attempt._replace(**{wrong: value})
    before = row(attempt.id)

    assert verb([impostor]) == Written([], [impostor], [])
    assert row(attempt.id) == before


def test_the_token_of_a_neighbour_does_not_help(verb):
    first = factories.claimed()
    second = factories.claimed(queue="default")
    crossed = [
        first._replace(token=second.token),
        second._replace(token=first.token),
    ]

    assert verb(crossed) == Written([], crossed, [])
    assert factories.states([first.id, second.id]) == [State.RUNNING] * 2


def test_a_batch_writes_what_it_holds_and_names_what_it_lost(verb):
    attempts = factories.claimed_many(6)
    lost = attempts[1::2]
    Job.objects.cancel_many([attempt.id for attempt in lost])

    assert verb(attempts) == Written(attempts[::2], lost, [])


def test_a_stale_and_a_fresh_lease_of_one_job_are_told_apart(verb):
    """A worker may hold a job anew whose earlier lease it lost."""
    stale = factories.claimed()
    fresh = factories.claimed_again(stale, worker=factories.WORKER)

    assert verb([stale, fresh]) == Written([fresh], [stale], [])


def test_a_batch_spans_queues(verb):
    attempts = [factories.claimed(queue=queue) for queue in ("a", "b", "a", "c")]

    written = verb(attempts)

    assert sorted(written.done) == sorted(attempts)
    assert written.lost == written.busy == []


def test_an_empty_batch_is_nothing(verb, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert verb([]) == Written([], [], [])


def test_a_batch_with_nothing_lost_is_one_statement(verb, django_assert_num_queries):
    attempts = factories.claimed_many(50)
    with django_assert_num_queries(1):
        assert verb(attempts).done == attempts


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_has_locked_is_busy_and_not_lost(verb, connect):
    attempts = factories.claimed_many(3)
    other = connect()
    other.execute("BEGIN")
    other.execute(
        "SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [attempts[1].id]
    )

    assert verb(attempts) == Written([attempts[0], attempts[2]], [], [attempts[1]])

    other.execute("COMMIT")
    assert verb([attempts[1]]).done == [attempts[1]]


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_somebody_is_taking_is_busy_until_he_commits(verb, connect):
    """LEA-02: nobody waits, and nothing is decided before it is."""
    attempt = factories.claimed()
    other = connect()
    other.execute("BEGIN")
    other.execute(
        "UPDATE pgqueue_job SET lease_token = gen_random_uuid() WHERE id = %s",
        [attempt.id],
    )

    assert verb([attempt]) == Written([], [], [attempt])
    other.execute("COMMIT")
    assert verb([attempt]) == Written([], [attempt], [])


@pytest.mark.django_db(transaction=True)
def test_exactly_one_of_an_ack_and_a_reap_wins(new_session):
    """LEA-01: started at the same instant, again and again."""
    worker, reaper = (Job.objects.on(new_session()) for _ in range(2))
    for _ in range(40):
        attempt = factories.claimed(max_attempts=1)
        factories.expire(attempt)

        def act(who: str, attempt: Attempt = attempt) -> bool:
            if who == "reaper":
                return bool(reaper.reap())
            written = worker.ack_many([Write(attempt, detail="1")])
            while written.busy:
                written = worker.ack_many([Write(attempt, detail="1")])
            return bool(written.done)

        acked, reaped = together(act, ["worker", "reaper"])

        job = factories.get(attempt.id)
        # A reaper that met the row while it was locked has left it for the next time.
        assert acked != reaped
        assert job.state == (State.SUCCEEDED if acked else State.DEAD)
        assert len(job.errors) == (0 if acked else 1)
        job.delete()


def test_single_verbs_say_whether_they_wrote():
    def tell(attempt: Attempt) -> list[bool]:
        jobs = Job.objects
        failure = factories.FAILURE
        return [
            jobs.renew(attempt, lease=1),
            jobs.ack(attempt),
            jobs.retry(attempt, failure),
            jobs.fail(attempt, failure),
            jobs.cancel_held(attempt, failure),
            jobs.snooze(attempt, 1),
            jobs.release(attempt),
            jobs.park(attempt),
        ]

    attempt = factories.claimed()
    assert tell(attempt) == [True, True, *[False] * 6]
    assert not any(tell(attempt._replace(token=str(uuid4()))))


@pytest.mark.parametrize("name", sorted(VERBS))
def test_a_lease_past_its_end_that_nobody_took_still_counts(name):
    """The token decides, not the clock: late is not lost."""
    attempt = factories.claimed()
    factories.expire(attempt)

    assert VERBS[name]([attempt]).done == [attempt]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("change", "held"),
    [
        ("lease_expires_at = lease_expires_at + interval '1 min'", True),
        ("lease_token = gen_random_uuid()", False),
        ("queue = 'moved'", False),
    ],
)
def test_a_row_that_changed_since_the_statement_began_is_judged_as_it_is_now(
    connect, session, watcher, change, held
):
    """The statement's view is older than the row; the lock brings the newest one."""
    attempt = factories.claimed()
    gated = sql.ACK.replace(
        "FROM unnest(", "FROM (SELECT pg_advisory_xact_lock(7)) AS gate, unnest(", 1
    )
    other = connect()
    other.execute("SELECT pg_advisory_lock(7)")
    given: dict[str, object] = {
        "queue": attempt.queue,
        "ids": [attempt.id],
        "tokens": [attempt.token],
        "delays": [None],
        "details": "[1]",
        "counted": True,
    }

    with Started(session.rows, gated, given) as ack:
        wait_until(watcher.blocked)
        other.execute(f"UPDATE pgqueue_job SET {change}")
        other.execute("SELECT pg_advisory_unlock(7)")

    assert ack.result() == [([1] if held else None,)]
    assert factories.states() == [State.SUCCEEDED if held else State.RUNNING]
