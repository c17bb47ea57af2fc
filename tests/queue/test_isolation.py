"""Isolation levels, and races that they decide."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction

from pgqueue_django.attempts import Write
from pgqueue_django.models import Job
from pgqueue_django.states import State
from tests import factories
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """CNC-10: ALTER DATABASE … SET default_transaction_isolation."""
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute(
            f'ALTER DATABASE "{name}" SET default_transaction_isolation'
            f" = '{request.param}'"
        )
    connections.close_all()
    try:
        yield request.param
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                f'ALTER DATABASE "{name}" RESET default_transaction_isolation'
            )
        connections.close_all()


def test_fifty_threads_with_one_key_get_one_job(level):
    """CNC-06, API-13: and never an error that the caller must understand."""
    spec = factories.spec(idempotency_key="k")

    enqueued = together(lambda _: Job.objects.enqueue(spec), range(50))

    assert len({job.id for job in enqueued}) == Job.objects.count() == 1
    assert sum(job.created for job in enqueued) == 1


def test_threads_race_for_keys_that_are_pruned_meanwhile(level):
    """CNC-06: every call gets a job that it can know of."""
    pruned: list[int] = []
    finished: list[int] = []

    def act(number: int) -> list[int]:
        if number > 1:
            spec = factories.spec(idempotency_key="k")
            ids = [Job.objects.enqueue(spec).id for _ in range(15)]
            finished.append(number)
            return ids
        while len(finished) < 6:
            with suppress(OperationalError):  # 40001: they are Django's sessions
                Job.objects.cancel_many(Job.objects.values_list("pk", flat=True))
                pruned.append(Job.objects.prune(older_than=0))
        return []

    ids = list(chain.from_iterable(together(act, range(8))))

    assert len(ids) == 6 * 15
    assert Job.objects.count() <= 1
    assert len(set(ids)) > 1
    assert sum(pruned) >= len(set(ids)) - 1


def sqlstate(error: BaseException) -> str | None:
    assert isinstance(error.__cause__, psycopg.Error)
    return error.__cause__.sqlstate


def test_a_callers_old_view_is_told_by_its_sqlstate(connect):
    """The one documented error: 40001, in the caller's own transaction."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM pgqueue_job")
        together(
            lambda _: Job.objects.enqueue(factories.spec(idempotency_key="k")), [1]
        )
        for enqueue in (
            Job.objects.enqueue,
            lambda spec: Job.objects.enqueue_many([spec]),
        ):
            with pytest.raises(OperationalError) as caught, transaction.atomic():
                enqueue(factories.spec(idempotency_key="k"))
            assert sqlstate(caught.value) == "40001"

    assert Job.objects.count() == 1


def test_a_workers_session_is_read_committed(level, session):
    assert session.rows("SHOW transaction_isolation", {}) == [("read committed",)]


def test_workers_run_everything_once_whatever_the_default(level, new_session):
    """CNC-10: claims, renewals, acks and cancels mixed, without an error."""
    ids = factories.queued_many(400)
    sessions = [new_session() for _ in range(6)]

    def act(number: int) -> int:
        queue = Job.objects.on(sessions[number])
        if number == 0:
            return len(set().union(*(queue.cancel_many(ids[n::40]) for n in range(8))))
        done = 0
        while held := queue.claim("default", limit=7, worker=f"w{number}", lease=30):
            queue.renew_many(map(Write, held), lease=30)
            written = queue.ack_many(Write(a, detail="1") for a in held)
            while written.busy:
                done += len(written.done)
                written = queue.ack_many(Write(a, detail="1") for a in written.busy)
            done += len(written.done)
        return done

    assert sum(together(act, range(6))) == 400
    assert set(factories.states()) <= {State.SUCCEEDED, State.CANCELLED}
