"""Unique keys: a queue has one live job of a key at most."""

import pytest
from django.db import connection, transaction

from pgqueue_django.attempts import Write
from pgqueue_django.exceptions import IdempotencyConflict, PgQueueError
from pgqueue_django.models import Job
from pgqueue_django.states import LIVE
from tests import factories
from tests.threads import Started, together
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def spec(key: str | None = "k", **values):
    return factories.spec(unique_key=key, **values)


def live_of(key: str = "k") -> list[int]:
    jobs = Job.objects.filter(unique_key=key, state__in=LIVE)
    return list(jobs.values_list("id", flat=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: factories.queued(unique_key="k").id,
        lambda: factories.queued(unique_key="k", delay=60).id,
        lambda: factories.unserved(unique_key="k").id,
        lambda: factories.claimed(unique_key="k").id,
    ],
    ids=["queued", "scheduled", "unserved", "running"],
)
def test_a_live_job_is_what_an_enqueue_of_its_key_gives(make):
    """CNC-08: whatever it is to run."""
    id_ = make()
    before = Job.objects.values().get(pk=id_)

    again = Job.objects.enqueue(spec(task="other", args=[1], priority=9, delay=5))

    assert (again.id, again.created) == (id_, False)
    assert again.enqueued_at == before["enqueued_at"]
    assert Job.objects.values().get(pk=id_) == before
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    "make", [factories.succeeded, factories.dead, factories.cancelled]
)
def test_an_ended_job_has_no_key_any_more(make):
    ended = make(unique_key="k")

    new = Job.objects.enqueue(spec())

    assert new.created
    assert new.id != ended.id
    assert live_of() == [new.id]


def test_a_key_counts_within_its_queue():
    assert Job.objects.enqueue(spec()).created
    assert Job.objects.enqueue(spec(queue="other")).created
    assert Job.objects.enqueue(spec("K")).created
    assert Job.objects.enqueue(spec(None, idempotency_key="k")).created


def test_a_job_that_waits_for_its_retry_keeps_its_key():
    """CNC-07: nothing that leads from one live state to another can meet it."""
    attempt = factories.claimed(unique_key="k")
    Job.objects.retry(attempt, failure="{}", delay=60)
    others = factories.queued_many(20)

    again = Job.objects.enqueue(spec())

    assert (again.id, again.created) == (attempt.id, False)
    factories.tick(attempt.id, run_at=-120)
    Job.objects.promote()
    taken = factories.claim(limit=10) + factories.claim(limit=20)
    assert sorted(one.id for one in taken) == sorted([attempt.id, *others])
    assert factories.claim() == []


def test_a_running_job_keeps_its_key_through_retry_and_reap():
    """CNC-09: no path out of a lease can find the key taken."""
    attempt = factories.claimed(unique_key="k")
    assert not Job.objects.enqueue(spec()).created
    assert Job.objects.snooze(attempt, 0)
    attempt = factories.claim(lease=30)[0]
    factories.tick(attempt.id, lease_expires_at=-60)
    (reaped,) = Job.objects.reap()

    assert reaped.id == attempt.id
    assert Job.objects.enqueue(spec()).id == attempt.id
    assert live_of() == [attempt.id]


def test_a_dead_job_whose_key_a_live_one_has_stays_dead():
    """CNC-09."""
    dead = factories.dead(unique_key="k")
    free = factories.dead(unique_key="free")
    live = factories.queued(unique_key="k")

    assert Job.objects.requeue_many([dead.id, free.id]) == {free.id}
    assert factories.states([dead.id, free.id, live.id]) == ["dead", "queued", "queued"]

    Job.objects.cancel(live.id)
    assert Job.objects.requeue(dead.id)


def test_of_several_dead_jobs_with_a_key_the_newest_is_requeued():
    dead = [factories.dead(unique_key="k").id for _ in range(3)]
    elsewhere = factories.dead(unique_key="k", queue="other").id

    assert Job.objects.requeue_many([*dead, elsewhere]) == {dead[2], elsewhere}
    assert live_of() == [dead[2], elsewhere]


@pytest.mark.django_db(transaction=True)
def test_a_requeue_waits_for_whoever_takes_the_key(connect, watcher):
    dead = factories.dead(unique_key="k")
    live = factories.queued()
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE pgqueue_job SET unique_key = 'k' WHERE id = %s", [live.id])

    with Started(Job.objects.requeue, dead.id) as requeue:
        wait_until(watcher.blocked)
        other.execute("COMMIT")

    assert not requeue.result()
    assert factories.states([dead.id, live.id]) == ["dead", "queued"]


@pytest.mark.django_db(transaction=True)
def test_fifty_threads_with_one_key_get_one_job():
    found = together(lambda _: Job.objects.enqueue(spec()), range(50))

    assert len({one.id for one in found}) == 1
    assert [one.created for one in found].count(True) == 1


@pytest.mark.django_db(transaction=True)
def test_threads_that_enqueue_run_and_end_a_key_never_have_two(new_session):
    """CNC-08: at most one of a key runs, at any instant."""
    sessions = [new_session() for _ in range(6)]

    def act(number: int) -> int:
        jobs, ended = Job.objects.on(sessions[number]), 0
        for _ in range(60):
            if number % 2:
                jobs.enqueue(spec())
                continue
            attempts = jobs.claim("default", limit=5, worker=f"w{number}", lease=30)
            assert len(attempts) <= 1
            ended += len(jobs.ack_many(Write(a, detail="1") for a in attempts).done)
        return ended

    assert sum(together(act, range(6))) + len(live_of()) == Job.objects.count()
    assert len(live_of()) <= 1


def test_a_batch_gives_the_live_job_for_each_of_its_key():
    live = factories.queued(unique_key="live").id
    ids = Job.objects.enqueue_many(
        [spec("a"), spec(None), spec("live"), spec("a"), spec("b"), spec(None)]
    )

    a, plain, found, again, b, other = ids
    assert (found, again) == (live, a)
    assert len({a, plain, b, other, live}) == Job.objects.count() == 5
    assert factories.get(b).unique_key == "b"


def test_of_several_in_a_batch_the_first_goes_in():
    specs = [spec("u", args=[n], idempotency_key=key) for n, key in enumerate("ba")]
    ids = Job.objects.enqueue_many([*specs, spec("u", args=[2])])

    assert len(set(ids)) == 1
    assert factories.get(ids[0]).args == [0]


@pytest.mark.django_db(transaction=True)
def test_a_caller_with_an_old_view_leaves_what_it_cannot_requeue(connect):
    """CNC-09, CNC-11: the live job is not to be seen there, and its key is taken."""
    taken, free = factories.dead(unique_key="k").id, factories.dead(unique_key="f").id
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM pgqueue_job")
        together(lambda _: Job.objects.enqueue(spec()), [1])

        assert Job.objects.requeue_many([taken, free]) == {free}
    assert factories.states([taken, free]) == ["dead", "queued"]


def test_the_idempotency_key_comes_first():
    kept = factories.succeeded(unique_key="u", idempotency_key="i")
    live = factories.queued(unique_key="u")

    both = Job.objects.enqueue(spec("u", idempotency_key="i"))
    new = Job.objects.enqueue(spec("u", idempotency_key="j"))
    many = Job.objects.enqueue_many(
        [spec("u", idempotency_key="i"), spec("u", idempotency_key="j")]
    )

    assert (both.id, new.id) == (kept.id, live.id)
    assert many == [kept.id, live.id]
    with pytest.raises(IdempotencyConflict):
        Job.objects.enqueue(spec("u", idempotency_key="i", args=[2]))


def test_a_key_freed_between_the_conflict_and_the_look_is_taken(monkeypatch):
    live = factories.queued(unique_key="k")
    monkeypatch.setattr(
        type(Job.objects),
        "_find_taken",
        lambda *_: Job.objects.cancel(live.id) and None,
    )

    assert Job.objects.enqueue(spec()).created


def test_a_key_that_flickers_for_ever_ends_in_a_clear_error(monkeypatch):
    factories.queued(unique_key="k")
    monkeypatch.setattr(type(Job.objects), "_find_taken", lambda *_: None)

    with pytest.raises(PgQueueError, match="unique_key: 'k'"):
        Job.objects.enqueue(spec())
    with pytest.raises(PgQueueError, match="unique_key"):
        Job.objects.enqueue_many([spec()])


def test_a_replay_sends_no_hint(django_capture_on_commit_callbacks):
    factories.queued(unique_key="k")
    with django_capture_on_commit_callbacks() as callbacks:
        Job.objects.enqueue(spec())

    assert callbacks == []


def test_jobs_behind_one_that_waits_are_not_held_up():
    """CNC-14: there is no order but that of claims, whatever waits."""
    first = factories.claimed()
    Job.objects.retry(first, failure="{}", delay=3600)
    ids = [factories.queued(priority=priority).id for priority in (0, 5, -5, 0)]

    taken = [attempt.id for attempt in factories.claim(limit=9)]

    assert taken == [ids[1], ids[0], ids[3], ids[2]]
