"""Cancelling a running job whose task says that its handler is to be interrupted."""

import asyncio
from threading import Event

import pytest

from pgqueue_django.exceptions import AttemptCancelled, AttemptTimedOut
from pgqueue_django.models import Job
from pgqueue_django.outcomes import Released
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.exits import STUCK
from pgqueue_django.worker.leases import Lease
from pgqueue_django.worker.timeouts import TimeLimits
from tests import factories
from tests.threads import Started
from tests.waiting import wait_until
from tests.worker import handlers, stubborn
from tests.worker.conftest import WAIT, add, finished, unclaimed_attempt
from tests.worker.test_guard import BOTH
from tests.worker.test_timeouts import limited_to, spin

ONES = pytest.mark.parametrize(
    ("task", "error"),
    [
        (stubborn.go_on, AttemptCancelled),
        (stubborn.go_on_async, asyncio.CancelledError),
    ],
    ids=["sync", "async"],
)


@pytest.fixture(autouse=True)
def fresh():
    stubborn.seen.clear()


@ONES
@pytest.mark.parametrize("notify", [True, False])
def test_a_cancel_interrupts_the_handler(
    start_worker, settings, heard, task, error, notify
):
    settings.PGQUEUE = {**settings.PGQUEUE, "NOTIFY": notify}
    id_ = add(task, "gate")
    # With hints no renewal need come.
    running = start_worker(lease=3_600 if notify else 0.5)
    gate = handlers.gates["gate"]
    assert gate.arrived.wait(WAIT)

    assert Job.objects.cancel(id_)

    assert gate.left.wait(WAIT)
    wait_until(lambda: finished(add(handlers.noop)).state == "succeeded")
    assert running.stop() == 0
    assert [type(each) for each in stubborn.seen] == [error]
    job = factories.get(id_)
    assert (job.state, job.errors, job.result) == ("cancelled", [], None)
    assert heard.count("lease_lost") == 1
    assert heard.count("handler_stuck") == 0


def test_another_loss_of_the_lease_interrupts_nothing(start_worker, connect):
    id_ = add(stubborn.go_on, "gate")
    running = start_worker(lease=0.5)
    gate = handlers.gates["gate"]
    assert gate.arrived.wait(WAIT)
    lost = running.worker._parts.leases

    connect().execute("DELETE FROM pgqueue_job WHERE id = %s", [id_])
    wait_until(lambda: not len(lost), WAIT)
    gate.opened.set()

    assert gate.left.wait(WAIT)
    assert stubborn.seen == []
    assert running.stop() == 0


def test_what_makes_nothing_of_it_is_replaced_with_its_process(
    start_process, held_by, let_go
):
    id_ = add(stubborn.go_on_regardless, str(let_go.folder))
    process = start_process("--processes=1", "--lease=60", pgqueue=BOTH)
    first = held_by()

    assert Job.objects.cancel(id_)

    process.wait_for(f"died: exit code {STUCK}")
    after = finished(add(handlers.where))
    assert after.result[0] not in (first, process.pid)
    job = factories.get(id_)
    assert (job.state, job.attempts, job.errors) == ("cancelled", 1, [])
    assert process.stop() == 0


# --- the executor ---------------------------------------------------------------------


@ONES
@pytest.mark.django_db
def test_a_handler_that_was_cancelled_before_it_began_does_not_begin(task, error):
    lease = Lease(factories.claimed(task.task_name, args=["gate"]), 0, 1e12)
    lease.lost = True

    outcome = Executor(TimeLimits()).run(lease.attempt, lease)

    assert outcome == Released()
    assert not handlers.gates["gate"].arrived.is_set()


def test_only_what_says_so_is_interrupted():
    limits = TimeLimits()
    executor = Executor(limits)
    polite = unclaimed_attempt(task=handlers.noop.task_name, timeout_seconds=10)

    limits.call(polite, executor.cancel, polite)
    limits.call(limited_to(None), executor.cancel, unclaimed_attempt(id=5))

    rude = unclaimed_attempt(task=stubborn.go_on.task_name)
    with pytest.raises(AttemptCancelled):
        limits.call(rude, executor.cancel, rude)
    assert not limits._running


def test_a_handler_is_interrupted_for_one_reason():
    limits, attempt = TimeLimits(), limited_to(0.0)

    def interrupted():
        limits.enforce()
        assert not limits.interrupt(attempt, AttemptCancelled)

    with pytest.raises(AttemptTimedOut):
        limits.call(attempt, interrupted)


def test_no_interrupt_arrives_after_the_end():
    """Race the end of a call against its interrupt: what follows is never hit."""
    limits, attempt = TimeLimits(), limited_to(None)
    over = Event()

    def interrupt() -> int:
        hits = 0
        while not over.is_set():
            hits += limits.interrupt(attempt, AttemptCancelled)
        return hits

    def race() -> str:
        try:
            return limits.call(attempt, spin, 0.00008)
        except AttemptCancelled:
            return "cancelled"

    with Started(interrupt) as hits:
        try:
            # Where an exception came late it would end the test, here or below.
            outcomes = [race() for _ in range(3_000)]
            spin(0.01)
        finally:
            over.set()

    assert outcomes.count("cancelled") == hits.result() > 0
    assert not limits._running
