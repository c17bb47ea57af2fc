"""Enqueueing many jobs."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat

import pytest
from django.db import DataError

from pgqueue_django.exceptions import IdempotencyConflict, InvalidJob, PgQueueError
from pgqueue_django.models import Job
from pgqueue_django.specs import JobSpec
from tests import factories
from tests.threads import Started, together
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def test_ids_come_in_the_order_given():
    specs = [factories.spec(args=[n]) for n in range(50)]

    ids = Job.objects.enqueue_many(specs)

    assert [factories.get(id_).args for id_ in ids] == [[n] for n in range(50)]
    assert ids == sorted(ids)


def test_jobs_of_one_batch_are_claimed_in_the_order_given():
    """With keys and without, whatever the order of the keys."""
    keys = ["c", None, "a", None, "b"]
    specs = [factories.spec(args=[n], idempotency_key=k) for n, k in enumerate(keys)]

    ids = Job.objects.enqueue_many(specs)

    assert ids == sorted(ids)
    assert [attempt.id for attempt in factories.claim(limit=9)] == ids


def test_every_option_of_each_is_stored():
    specs = [
        factories.spec("a", queue="x", priority=1, delay=60, max_attempts=1),
        factories.spec("b", queue="y", priority=2, timeout=3, kwargs={"k": [None]}),
    ]

    first, second = map(factories.get, Job.objects.enqueue_many(specs))

    assert (first.task, first.queue, first.priority, first.max_attempts) == (
        "a", "x", 1, 1,
    )  # fmt: skip
    assert (first.state, second.state) == ("scheduled", "queued")
    assert (second.timeout_seconds, second.kwargs) == (3, {"k": [None]})


def test_what_some_jobs_of_a_batch_leave_out_stays_out():
    """Columns of one value are sent once, and others as they are."""
    due = datetime(2030, 1, 1, tzinfo=UTC)
    specs = [
        factories.spec("a", timeout=3, run_at=due),
        factories.spec("a", delay=60),
        factories.spec("a"),
    ]

    at, later, now = map(factories.get, Job.objects.enqueue_many(specs))

    assert [job.task for job in (at, later, now)] == ["a"] * 3
    assert [job.timeout_seconds for job in (at, later, now)] == [3, None, None]
    assert [job.state for job in (at, later, now)] == [
        "scheduled", "scheduled", "queued",
    ]  # fmt: skip
    assert at.run_at == due
    assert later.run_at - later.enqueued_at == timedelta(seconds=60)
    assert now.run_at == now.enqueued_at


def test_a_batch_keeps_no_more_of_itself_than_a_chunk_and_the_ids():
    """Twenty thousand jobs of 2 KB would be 40 MB."""
    specs = (factories.spec(args=[str(n) * 400]) for n in range(10_000, 30_000))
    Job.objects.enqueue_many(islice(specs, 2_000))
    tracemalloc.start()
    try:
        ids = Job.objects.enqueue_many(specs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(ids) == 18_000
    assert peak < 15_000_000


def test_none_is_no_statement_that_fails():
    assert Job.objects.enqueue_many([]) == []


def test_an_endless_iterator_is_read_in_chunks():
    specs = islice(repeat(factories.spec()), 2_500)

    ids = Job.objects.enqueue_many(specs)

    assert len(set(ids)) == 2_500
    assert ids == sorted(ids)
    assert Job.objects.count() == 2_500


def test_the_same_key_twice_in_a_batch_is_one_job():
    spec = factories.spec(idempotency_key="k")

    first, other, again = Job.objects.enqueue_many([spec, factories.spec(), spec])

    assert first == again != other
    assert Job.objects.count() == 2


def test_the_same_key_in_two_queues_is_two_jobs():
    specs = [factories.spec(idempotency_key="k", queue=q) for q in ("a", "b", "a")]

    first, second, third = Job.objects.enqueue_many(specs)

    assert first == third != second


def test_a_key_that_is_taken_gives_its_job():
    job = factories.queued(idempotency_key="k")

    ids = Job.objects.enqueue_many(
        [factories.spec(), factories.spec(idempotency_key="k")]
    )

    assert ids[1] == job.id


def test_a_conflict_inserts_nothing_and_leaves_the_transaction_usable():
    """PAY-01: all or nothing."""
    factories.queued("taken", idempotency_key="k")

    with pytest.raises(IdempotencyConflict, match="'k'"):
        Job.objects.enqueue_many(
            [factories.spec(), factories.spec("other", idempotency_key="k")]
        )

    assert [job.task for job in Job.objects.all()] == ["taken"]


def test_a_conflict_within_a_batch_inserts_nothing():
    specs = [factories.spec(task, idempotency_key="k") for task in ("a", "b")]

    with pytest.raises(IdempotencyConflict):
        Job.objects.enqueue_many(specs)

    assert not Job.objects.exists()


def test_a_spec_that_cannot_be_built_undoes_the_chunks_before_it():
    def specs():
        for _ in range(1_500):
            yield factories.spec()
        yield factories.spec(args=["\0"])

    with pytest.raises(InvalidJob, match=r"args\[0\]"):
        Job.objects.enqueue_many(specs())

    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_workers_session_survives_a_batch_that_the_database_refuses(session):
    wrong = JobSpec.build(task="t")
    object.__setattr__(wrong, "args", "no JSON")
    queue = Job.objects.on(session)

    with pytest.raises(DataError):
        queue.enqueue_many([factories.spec(), wrong])

    assert not Job.objects.exists()
    assert len(queue.enqueue_many([factories.spec()])) == 1


def test_a_batch_costs_one_statement_for_a_thousand(django_assert_num_queries):
    specs = [factories.spec() for _ in range(1_000)]
    with django_assert_num_queries(1 + 2):  # and its savepoint
        Job.objects.enqueue_many(specs)


@pytest.mark.parametrize(
    "keyed",
    [
        lambda key, _: {"idempotency_key": key},
        lambda key, _: {"unique_key": key},
        lambda key, batch: {"unique_key": key, "idempotency_key": f"{batch} {key}"},
        lambda key, _: {"unique_key": key, "idempotency_key": key},
    ],
    ids=["idempotency", "unique", "one's own too", "both"],
)
@pytest.mark.django_db(transaction=True)
def test_batches_with_the_same_keys_in_other_orders_do_not_deadlock(
    new_session, watcher, keyed
):
    """CNC-06, for batches: each waits for the other's keys in one order."""
    keys = [f"k{n:03}" for n in range(300)]
    orders = [keys, keys[::-1], keys[150:] + keys[:150], keys[::2] + keys[1::2]] * 2

    def enqueue(order: list[str]) -> dict[str, int]:
        queue = Job.objects.on(new_session())
        batch = orders.index(order)
        specs = [factories.spec(**keyed(key, batch)) for key in order]
        return dict(zip(order, queue.enqueue_many(specs), strict=True))

    first, *others = together(enqueue, orders)

    assert len(first) == Job.objects.count() == 300
    assert all(other == first for other in others)


@pytest.mark.django_db(transaction=True)
def test_a_batch_waits_for_the_same_key_in_an_open_transaction(connect, watcher):
    """Two batches in other orders, step by step: nobody is a deadlock's victim."""
    holder = connect()
    holder.execute("BEGIN")
    holder.execute(
        "INSERT INTO pgqueue_job (queue, task, args, kwargs, state, priority, run_at,"
        " enqueued_at, attempts, max_attempts, worker, errors, idempotency_key)"
        " VALUES ('default', 'tests.task', '[]', '{}', 'queued', 0, now(), now(), 0, 5,"
        " '', '[]', 'a')"
    )
    specs = [factories.spec(idempotency_key=key) for key in ("b", "a")]

    with Started(Job.objects.enqueue_many, specs) as started:
        wait_until(watcher.blocked)
        # "b" would be locked by now if the rows went in as given.
        holder.execute("SET LOCAL lock_timeout = '1s'")
        holder.execute(
            "INSERT INTO pgqueue_job (queue, task, args, kwargs, state, priority,"
            " run_at, enqueued_at, attempts, max_attempts, worker, errors,"
            " idempotency_key) VALUES ('default', 'tests.task', '[]', '{}', 'queued',"
            " 0, now(), now(), 0, 5, '', '[]', 'b')"
        )
        holder.execute("COMMIT")

    assert len(set(started.result())) == 2
    assert Job.objects.count() == 2


def test_a_batch_begins_anew_when_a_taken_key_is_freed_meanwhile(monkeypatch):
    """CNC-06: inserting it late, out of turn, could deadlock with another batch."""
    old = factories.succeeded(idempotency_key="b")
    looks = []

    def prune_first(self, session, spec):
        looks.append(spec)
        Job.objects.filter(pk=old.id).delete()
        # The savepoint brings the row back, as it does what the batch inserted.
        monkeypatch.undo()

    monkeypatch.setattr(type(Job.objects), "_find_by_key", prune_first)

    first, second = Job.objects.enqueue_many(
        factories.spec(idempotency_key=key) for key in "ab"
    )

    assert len(looks) == 1
    assert (second, first != second) == (old.id, True)
    assert Job.objects.count() == 2


def test_a_key_that_flickers_for_ever_ends_a_batch_in_a_clear_error(monkeypatch):
    factories.queued(idempotency_key="k")
    monkeypatch.setattr(type(Job.objects), "_find_by_key", lambda *_: None)

    with pytest.raises(PgQueueError, match="idempotency_key"):
        Job.objects.enqueue_many([factories.spec(idempotency_key="k")])

    assert Job.objects.count() == 1
