"""``fenced()``: a handler's writes and its success, together or not at all."""

import os
import signal
from functools import partial
from random import Random
from threading import current_thread

import pytest
from django.db import OperationalError, connection
from django.db.backends.postgresql.base import DatabaseWrapper

from pgqueue_django import LeaseLost
from pgqueue_django.models import Job
from pgqueue_django.outcomes import Committed, Retried
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.leases import Lease
from pgqueue_django.worker.timeouts import TimeLimits
from tests import factories
from tests.counters.reading import counts
from tests.threads import Started
from tests.waiting import wait_until
from tests.worker import handlers, ledgers
from tests.worker.conftest import WAIT, add, finished, pause

RUNS = 200
STOPPED = 5
BOTH = [(1, "first"), (1, "second")]
PROCESS = {"TASK_MODULES": ["tests.worker.ledgers"]}


@pytest.fixture(autouse=True)
def ledger(transactional_db):
    """Make the table that the handlers write to."""
    ledgers.meanwhile.clear()
    ledgers.raised.clear()
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {ledgers.TABLE} (job bigint, attempt int, what text)"
        )
        cursor.execute(
            f"CREATE TABLE {ledgers.TABLE}_once"
            " (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {ledgers.TABLE}, {ledgers.TABLE}_once")


def run(attempt):
    """Run an attempt as a worker's thread does; return the outcome."""
    lease = Lease(attempt, taken=0, expires=1e12)
    return Executor(TimeLimits()).run(attempt, lease)


def attempt_of(task, *args, **kwargs):
    return factories.claimed(task.task_name, args=args, kwargs=kwargs)


@pytest.fixture
def thief(session):
    """Return how another may take a job away while its handler is in the block."""
    jobs = Job.objects.on(session)

    def reap(attempt):
        session.rows(
            "UPDATE pgqueue_job SET lease_expires_at = statement_timestamp()"
            " WHERE id = %(id)s RETURNING id",
            {"id": attempt.id},
        )
        assert [job.id for job in jobs.reap()] == [attempt.id]

    def claim(attempt):
        reap(attempt)
        (again,) = jobs.claim("default", limit=1, worker="thief", lease=30)
        assert again.id == attempt.id
        return again

    def succeed(attempt):
        assert jobs.ack(claim(attempt), '"by the thief"')

    def cancel(attempt):
        assert jobs.cancel(attempt.id)

    return [reap, claim, succeed, cancel]


# --- who has lost its lease writes nothing --------------------------------------------


def test_200_workers_that_lose_their_leases_in_the_block_write_nothing(thief):
    random = Random(2)
    for _ in range(RUNS):
        attempt = attempt_of(ledgers.book, late=random.random() < 0.5)
        steal = random.choice(thief)
        ledgers.meanwhile.append(partial(steal, attempt))

        outcome = run(attempt)

        assert not isinstance(outcome, Committed)
        assert isinstance(ledgers.raised.pop(), LeaseLost)
        job = factories.get(attempt.id)
        assert job.lease_token is None or str(job.lease_token) != attempt.token
        assert job.result in (None, "by the thief")
        Job.objects.all().delete()

    assert ledgers.written() == []


def test_without_fenced_the_same_200_workers_write_all_of_it(thief):
    random = Random(2)
    for _ in range(RUNS):
        attempt = attempt_of(ledgers.book, fenced=False)
        steal = random.choice(thief)
        ledgers.meanwhile.append(partial(steal, attempt))
        run(attempt)
        Job.objects.all().delete()

    assert len(ledgers.written()) == 2 * RUNS


def test_of_a_block_that_ends_and_a_thief_at_the_same_instant_one_wins():
    random = Random(3)
    for _ in range(50):
        attempt = attempt_of(ledgers.book, late=True)
        steal = random.choice([_reap, lambda a: Job.objects.cancel(a.id)])
        started = partial(Started, steal, attempt)
        thieves: list[Started[object]] = []
        ledgers.meanwhile.append(lambda: thieves.append(started()))  # noqa: B023

        outcome = run(attempt)
        thieves[0].result()

        state = factories.get(attempt.id).state
        if isinstance(outcome, Committed):
            assert (state, ledgers.written(attempt.id)) == ("succeeded", BOTH)
        else:
            assert state in ("queued", "cancelled")
            assert ledgers.written(attempt.id) == []
        Job.objects.all().delete()


def _reap(attempt):
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_job SET lease_expires_at = statement_timestamp()"
            " WHERE id = %s AND lease_token = %s",
            [attempt.id, attempt.token],
        )
    Job.objects.reap()


@pytest.mark.parametrize("fenced", [True, False])
def test_a_stopped_worker_that_wakes_in_the_block(
    start_process, held_by, let_go, fenced
):
    """As above, but the operating system does the harm; to several in their blocks."""
    names = [f"job-{number}" for number in range(STOPPED)]
    threads = f"--threads={STOPPED}"
    folder = str(let_go.folder)
    ids = [add(ledgers.hold_and_book, folder, name, fenced=fenced) for name in names]
    first = start_process("--lease=1", threads, pgqueue=PROCESS)
    assert {held_by(name) for name in names} == {first.pid}
    os.kill(first.pid, signal.SIGSTOP)
    try:
        second = start_process(threads, pgqueue=PROCESS)
        for name in names:
            assert held_by(name, besides=first.pid) == second.pid
            let_go(name)
        for id_ in ids:
            assert finished(id_).result == f"done by {second.pid}"
    finally:
        os.kill(first.pid, signal.SIGCONT)

    first.wait_for("lease lost")
    assert (first.stop(), second.stop()) == (0, 0)
    seconds = [(2, "first"), (2, "second")]
    for id_ in ids:
        assert ledgers.written(id_) == (seconds if fenced else BOTH + seconds)
        assert factories.get(id_).attempts == 2


def test_a_worker_that_is_late_for_the_block_writes_nothing(thief):
    attempt = attempt_of(ledgers.book)
    thief[1](attempt)
    run(attempt)
    assert isinstance(ledgers.raised.pop(), LeaseLost)
    assert ledgers.written() == []


def test_a_handler_that_swallows_the_loss_has_not_succeeded(start_worker, heard):
    id_ = add(ledgers.swallow)
    # In a thread: on the handler's connection a cancel would be undone with the block.
    ledgers.meanwhile.append(lambda: Started(Job.objects.cancel, id_).result())
    running = start_worker()
    wait_until(lambda: heard.count("lease_lost"), WAIT)

    assert running.stop() == 0
    assert isinstance(ledgers.raised.pop(), LeaseLost)
    assert (factories.get(id_).state, ledgers.written()) == ("cancelled", [])
    assert heard.recorded() == []


# --- success --------------------------------------------------------------------------


def test_the_writes_and_the_success_stand_together(start_worker, heard):
    id_ = add(ledgers.book)
    running = start_worker(drain=True)
    assert running.result() == 0

    job = factories.get(id_)
    assert (job.state, job.result, job.attempts) == ("succeeded", "fenced", 1)
    assert ledgers.written() == BOTH
    ((_, outcome),) = heard.recorded()
    assert outcome == Committed('"fenced"')
    assert heard.count("lease_lost") == heard.count("outcome_ignored") == 0


def test_a_success_is_counted_once(drain):
    add(ledgers.book)
    assert drain() == 0
    assert counts() == {"started": 1, "succeeded": 1}


@pytest.mark.parametrize("then", ["nothing", "same"])
def test_what_adds_nothing_after_the_block_is_not_remarked(drain, heard, then):
    id_ = add(ledgers.book_then, then)
    assert drain() == 0
    assert factories.get(id_).result == "kept"
    assert heard.count("outcome_ignored") == 0


@pytest.mark.parametrize("then", ["raise", "retry", "again", "save", "return"])
def test_after_the_block_the_job_has_succeeded_whatever_comes(
    drain, heard, caplog, then
):
    id_ = add(ledgers.book_then, then)
    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.result, job.attempts) == ("succeeded", "kept", 1)
    assert job.errors == []
    assert ledgers.written() == [(1, "in the block")]
    assert heard.count("outcome_ignored") == 1
    assert "has succeeded in fenced()" in caplog.text
    if then in ("again", "save"):
        assert "JobFinished" in caplog.text


@pytest.mark.parametrize("how", ["raise", "result", "constraint"])
def test_a_block_that_fails_leaves_nothing(how):
    """A deferred constraint fails at the commit itself."""
    attempt = attempt_of(ledgers.fail_in_the_block, how)
    outcome = run(attempt)

    assert isinstance(outcome, Retried)
    assert ledgers.written() == []
    assert factories.get(attempt.id).state == "running"
    assert Job.objects.retry(attempt, outcome.failure.as_json())


def test_an_atomic_inside_the_block_is_a_savepoint():
    outcome = run(attempt_of(ledgers.nest, "inside"))
    assert isinstance(outcome, Committed)
    assert ledgers.written() == [(1, "after it"), (1, "outer")]


def test_the_block_refuses_to_be_inside_an_atomic():
    attempt = attempt_of(ledgers.nest, "outside")
    outcome = run(attempt)
    assert isinstance(outcome, Retried)
    assert outcome.failure.exception == "builtins.RuntimeError"
    assert (ledgers.written(), factories.get(attempt.id).state) == ([], "running")


def test_async_handlers_give_it_a_function(drain):
    id_ = add(ledgers.book_async, "word")
    assert drain() == 0
    assert factories.get(id_).result == "async word"
    assert ledgers.written() == [(1, "word")]


def test_works_inside_a_plain_testcase(django_db_blocker):
    """There the outermost block is the test's own."""
    from django.test import TestCase

    class Case(TestCase):
        def runTest(self) -> None:  # noqa: N802
            attempt = attempt_of(ledgers.book)
            assert isinstance(run(attempt), Committed)
            assert factories.get(attempt.id).state == "succeeded"

    result = Case().run()
    assert result is not None
    assert result.wasSuccessful(), result.failures + result.errors


# --- while it lasts -------------------------------------------------------------------


def test_the_lease_is_renewed_while_the_block_lasts(start_process, held_by, let_go):
    id_ = add(ledgers.hold_and_book, str(let_go.folder), fenced=True)
    process = start_process("--lease=0.6", pgqueue=PROCESS)
    held_by()
    expiry = factories.get(id_).lease_expires_at
    for _ in range(3):
        expiry = wait_until(partial(_expiry_after, id_, expiry), WAIT)
    let_go()

    assert finished(id_).attempts == 1
    assert process.stop() == 0
    assert ledgers.written() == BOTH
    assert "lease lost" not in process.log


def _expiry_after(id_, before):
    expiry = factories.get(id_).lease_expires_at
    return expiry if expiry > before else None


def test_a_handler_that_lingers_after_the_block_has_lost_nothing(start_worker, heard):
    """Its lease is gone and is renewed no more: the reason is its own success."""
    lease = 0.3
    id_ = add(ledgers.book_and_linger, "gate")
    running = start_worker(lease=lease)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    assert factories.get(id_).state == "succeeded"
    pause(3 * lease)
    handlers.gates["gate"].opened.set()

    wait_until(heard.recorded, WAIT)
    assert running.stop() == 0
    assert heard.count("lease_lost") == 0


def test_an_answer_that_got_lost_with_the_commit_is_found_out(
    start_worker, heard, monkeypatch
):
    """The block raises, as nobody knows whether it was kept; and it was."""
    commit = DatabaseWrapper.commit

    def commit_and_break(self: DatabaseWrapper) -> None:
        commit(self)
        if current_thread().name.startswith("pgqueue-handler"):
            raise OperationalError("the answer was lost")

    monkeypatch.setattr(DatabaseWrapper, "commit", commit_and_break)
    id_ = add(ledgers.book)
    running = start_worker()
    wait_until(heard.recorded, WAIT)
    monkeypatch.undo()

    assert running.stop() == 0
    job = factories.get(id_)
    assert (job.state, job.attempts, job.errors) == ("succeeded", 1, [])
    assert ledgers.written() == BOTH
    assert heard.count("lease_lost") == 0
