"""NOTIFY: after the commit, once a queue and transaction, and only when work is due."""

from collections import Counter
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.pq import TransactionStatus

from pgqueue_django.models import Job
from pgqueue_django.notifications import CANCEL_CHANNEL, DUE_CHANNEL, SOON_CHANNEL
from tests import factories
from tests.undoing import undone

pytestmark = pytest.mark.django_db(transaction=True)

Hints = Counter[tuple[str, str]]


@pytest.fixture
def heard(connect) -> Callable[[], Hints]:
    """Return a function that tells which hints have arrived since it was last asked.

    Notifications come in the order of their commits, so a marker ends the wait.
    """
    listener, marker = connect(), connect()
    for channel in (DUE_CHANNEL, SOON_CHANNEL, CANCEL_CHANNEL, "marker"):
        listener.execute(f"LISTEN {channel}")

    def since() -> Hints:
        marker.execute("NOTIFY marker")
        heard: Hints = Counter()
        for notice in listener.notifies(timeout=10):
            if notice.channel == "marker":
                return heard
            heard[notice.channel, notice.payload] += 1
        raise AssertionError("the marker did not arrive")

    return since


def due(*queues: str) -> Hints:
    return Counter({(DUE_CHANNEL, queue): 1 for queue in queues})


def test_an_enqueued_job_is_announced(heard):
    factories.queued(queue="a")

    assert heard() == due("a")


def test_nothing_is_announced_before_the_commit(heard):
    with transaction.atomic():
        factories.queued(queue="a")
        assert heard() == due()
    assert heard() == due("a")


def test_no_hint_lengthens_the_commit(heard):
    """Rule 12: a NOTIFY inside a transaction makes commits wait for each other."""
    with transaction.atomic():
        factories.queued_many(3, queue="a")
        factories.queued(queue="a")
        assert len(connection.run_on_commit) == 1
        connection.run_on_commit.clear()

    assert heard() == due()


def test_nothing_is_announced_after_a_rollback(heard):
    with undone():
        factories.queued()

    assert heard() == due()


def test_a_rolled_back_savepoint_announces_nothing_of_its_own(heard):
    with transaction.atomic():
        factories.queued(queue="a")
        with undone():
            factories.queued(queue="a")
            factories.queued(queue="b")

    assert heard() == due("a")


def test_what_follows_a_rolled_back_savepoint_is_announced(heard):
    with transaction.atomic():
        with undone():
            factories.queued(queue="a")
        factories.queued(queue="a")

    assert heard() == due("a")


def test_a_queue_is_announced_once_a_transaction(heard):
    """PRF-10."""
    with transaction.atomic():
        for _ in range(3):
            factories.queued(queue="a")
            factories.queued(queue="b")
            factories.queued_many(5, queue="a")

    assert heard() == due("a", "b")


def test_a_batch_announces_each_queue_once(heard):
    Job.objects.enqueue_many(factories.spec(queue="ab"[n % 2]) for n in range(2_500))

    assert heard() == due("a", "b")


def test_a_batch_of_a_workers_session_announces_each_queue_once(heard, session):
    Job.objects.on(session).enqueue_many(
        factories.spec(queue="ab"[n % 2]) for n in range(2_500)
    )

    assert heard() == due("a", "b")


def test_a_cancel_is_announced_for_what_ran_once_it_is_committed(heard):
    ran, waiting = factories.claimed(), factories.queued()
    finished = factories.succeeded(queue="done")
    heard()

    with undone():
        Job.objects.cancel(ran.id)
    assert heard() == due()
    Job.objects.cancel_many([ran.id, waiting.id, finished.id])

    assert heard() == {(CANCEL_CHANNEL, str(ran.id)): 1}


def test_a_replay_announces_nothing(heard):
    factories.queued(idempotency_key="k")
    heard()
    Job.objects.enqueue(factories.spec(idempotency_key="k"))
    Job.objects.enqueue_many([factories.spec(idempotency_key="k")])

    assert heard() == due()


def test_a_later_job_is_announced_only_if_it_is_due_before_the_next_look(
    heard, settings
):
    settings.PGQUEUE = {"POLL_INTERVAL_SECONDS": 5}
    factories.queued(queue="a", delay=60)
    assert heard() == due()

    factories.queued(queue="a", delay=3)
    assert heard() == {(SOON_CHANNEL, "a"): 1}


def test_the_switch_turns_it_off(heard, settings):
    settings.PGQUEUE = {"NOTIFY": False}
    factories.queued()
    factories.queued_many(2)
    Job.objects.requeue(factories.dead(queue="y").id)
    Job.objects.release(factories.claimed(queue="x"))

    assert heard() == due()


def test_claims_renewals_and_acks_announce_nothing(heard):
    """PRF-10: none on heartbeat or ack."""
    one, two, three, four = factories.claimed_many(4)
    heard()

    Job.objects.renew(one, lease=30)
    Job.objects.ack(one)
    Job.objects.fail(two, factories.FAILURE)
    Job.objects.cancel_held(three, factories.FAILURE)
    Job.objects.park(four)
    Job.objects.claim_unserved(
        "default", tasks=["tests.task"], limit=1, worker="w", lease=30
    )
    Job.objects.prune(older_than=0)
    Job.objects.promote()
    Job.objects.reap()

    assert heard() == due()


@pytest.mark.parametrize("verb", ["retry", "snooze", "release"])
def test_a_job_given_back_is_announced(heard, verb):
    attempt = factories.claimed(queue="a")
    heard()

    assert {
        "retry": lambda: Job.objects.retry(attempt, factories.FAILURE),
        "snooze": lambda: Job.objects.snooze(attempt, 0),
        "release": lambda: Job.objects.release(attempt),
    }[verb]()

    assert heard() == due("a")


@pytest.mark.parametrize("verb", ["retry", "snooze"])
def test_a_job_put_off_is_not_announced(heard, verb):
    """PRF-10: a hint says that work is due."""
    attempt = factories.claimed(queue="a")
    heard()

    assert {
        "retry": lambda: Job.objects.retry(attempt, factories.FAILURE, 60),
        "snooze": lambda: Job.objects.snooze(attempt, 60),
    }[verb]()

    assert heard() == due()


def test_a_lost_lease_announces_nothing(heard):
    attempt = factories.claimed()
    Job.objects.cancel(attempt.id)
    heard()

    assert not Job.objects.release(attempt)
    assert not Job.objects.retry(attempt, factories.FAILURE)

    assert heard() == due()


def test_promoted_reaped_and_requeued_jobs_are_announced(heard):
    scheduled = factories.queued(queue="p", delay=60)
    factories.tick(scheduled.id, run_at=-1)
    factories.expire(factories.claimed(queue="r"))
    dead = factories.dead(queue="q")
    gone = factories.claimed(queue="gone", max_attempts=1)
    factories.expire(gone)
    heard()

    Job.objects.promote()
    assert heard() == due("p")
    Job.objects.reap()
    assert heard() == due("r")
    Job.objects.requeue(dead.id)
    assert heard() == due("q")


@pytest.mark.parametrize("queue", ["żółć🎉", "';--", "x" * 100])
def test_a_queue_of_any_name_is_announced(heard, queue):
    factories.queued(queue=queue)

    assert heard() == due(queue)


# --- with the job, in one message ----------------------------------------------------


def test_a_job_outside_of_transactions_takes_one_message(heard):
    with CaptureQueriesContext(connection) as captured:
        id_ = Job.objects.enqueue(factories.spec(queue="a")).id

    assert len(captured) == 1
    assert Job.objects.get(id=id_).state == "queued"
    assert heard() == due("a")


def test_the_hint_is_not_in_the_jobs_transaction(heard):
    """Whoever notifies has one lock of the whole server until its commit is flushed."""
    with CaptureQueriesContext(connection) as captured:
        factories.queued(queue="a")

    sql = captured[0]["sql"]
    assert sql.index("INSERT") < sql.index("COMMIT") < sql.index("pg_notify")


def test_parameters_that_go_apart_from_the_text_take_two_messages(heard, monkeypatch):
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setattr(connection.features, "uses_server_side_binding", True)
    monkeypatch.setitem(options, "server_side_binding", True)
    connection.close()
    try:
        with CaptureQueriesContext(connection) as captured:
            Job.objects.enqueue(factories.spec(queue="a"))
    finally:
        connection.close()

    assert len(captured) == 2
    assert heard() == due("a")


def test_an_insert_that_is_refused_leaves_no_transaction(heard, connect):
    with connect().transaction() as holder:
        holder.connection.execute("LOCK TABLE pgqueue_job")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        try:
            with pytest.raises(OperationalError, match="lock timeout"):
                factories.queued(queue="a")
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")

    assert connection.connection.info.transaction_status == TransactionStatus.IDLE
    factories.queued(queue="b")
    assert heard() == due("b")
