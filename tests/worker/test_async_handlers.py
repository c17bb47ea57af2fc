"""Async handlers run together on one event loop."""

import threading

import pytest

from pgqueue_django.attempts import Attempt
from pgqueue_django.exceptions import AttemptTimedOut, Cancel
from pgqueue_django.worker import Worker
from pgqueue_django.worker.async_pool import AsyncPool
from tests import factories
from tests.waiting import wait_until
from tests.worker import async_handlers, handlers
from tests.worker.conftest import WAIT, add, finished, in_state, unclaimed_attempt

TIMED_OUT = "pgqueue_django.exceptions.AttemptTimedOut"


def threads(prefix: str = "pgqueue-async") -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(prefix))


@pytest.fixture(autouse=True)
def nobody_there():
    async_handlers.meeting.reset(0)


def test_a_hundred_run_at_the_same_time_beside_one_thread(start_worker):
    async_handlers.meeting.reset(100)
    ids = factories.queued_many(100, task=async_handlers.meet.task_name)

    start_worker(threads=1)

    assert {finished(id_).result for id_ in ids} == {"pgqueue-async"}
    assert async_handlers.meeting.most == 100


def test_no_more_run_than_there_are_slots(drain):
    async_handlers.meeting.reset(3)
    factories.queued_many(30, task=async_handlers.meet.task_name)

    assert drain(threads=1, async_slots=3) == 0

    assert async_handlers.meeting.most == 3


def test_a_worker_without_async_jobs_has_no_loop(start_worker):
    start_worker()
    finished(add(handlers.noop))
    assert threads() == []
    finished(add(async_handlers.nothing))
    assert "pgqueue-async" in threads()


def test_a_loop_that_is_about_to_start_is_not_taken_for_one_that_has_ended(monkeypatch):
    async def run(_attempt: Attempt) -> None:
        return None

    pool = AsyncPool(1, run, lambda: None, lambda: None)
    start, seen = threading.Thread.start, []

    def look_and_start(self: threading.Thread) -> None:
        seen.append(pool.whole)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", look_and_start)
    pool.submit([unclaimed_attempt()])
    wait_until(lambda: pool.taken == 1 and pool.idle)

    assert seen == [True]
    assert pool.whole
    pool.stop()
    assert pool.join(WAIT)
    assert not pool.whole


def test_nothing_of_one_context_reaches_the_next(drain):
    ids = [add(async_handlers.look_and_leave, str(number)) for number in range(20)]
    assert drain(async_slots=1) == 0
    assert {factories.get(id_).result for id_ in ids} == {"nothing"}


def test_a_handler_that_cancels_itself_has_failed(drain):
    id_ = add(async_handlers.cancel_itself, options={"max_attempts": 1})
    assert drain() == 0
    error = factories.get(id_).errors[0]
    assert error["exception"] == "asyncio.exceptions.CancelledError"


def test_an_exit_in_a_task_of_a_handlers_own_ends_no_loop(drain):
    first, second = add(async_handlers.exit_in_a_task), add(async_handlers.nothing)
    assert drain() == 0
    assert factories.get(first).result == "caught"
    assert factories.get(second).state == "succeeded"


@pytest.mark.parametrize(
    "task", [async_handlers.swallow_the_timeout, async_handlers.fail_when_cancelled]
)
def test_what_a_handler_makes_of_its_timeout_does_not_count(drain, task):
    id_ = add(task)
    assert drain() == 0
    job = factories.get(id_)
    assert (job.state, job.errors[0]["exception"]) == ("dead", TIMED_OUT)


@pytest.mark.parametrize(
    ("reason", "state"), [(AttemptTimedOut, "dead"), (Cancel, "cancelled")]
)
def test_an_interrupt_ends_a_handler_for_its_reason(start_worker, heard, reason, state):
    id_ = add(async_handlers.hold_for_ever, "gate", options={"max_attempts": 1})
    other = add(async_handlers.hold_for_ever, "other")
    worker = start_worker(shutdown_timeout=0).worker
    assert handlers.gates["gate"].arrived.wait(WAIT)
    attempt = attempt_of(heard, id_)

    assert parts_of(worker).executor.interrupt(attempt, reason)

    assert in_state(id_, "dead", "cancelled").state == state
    assert handlers.gates["gate"].left.is_set()
    assert factories.get(other).state == "running"
    wait_until(lambda: not parts_of(worker).executor.interrupt(attempt, reason))


def attempt_of(heard, id_):
    def found():
        started = [said["attempt"] for said in heard.of("job_started")]
        return next((attempt for attempt in started if attempt.id == id_), None)

    return wait_until(found)


def parts_of(worker: Worker):
    assert worker._parts
    return worker._parts


def test_an_async_handler_hears_that_it_should_stop(start_worker):
    id_ = add(async_handlers.wait_for_stop, "gate")
    running = start_worker()
    assert handlers.gates["gate"].arrived.wait(WAIT)

    assert running.stop() == 0

    assert handlers.gates["gate"].told_to_stop.is_set()
    assert factories.get(id_).result == "stopped early"


def test_at_the_shutdown_timeout_what_runs_is_given_back_and_cancelled(
    start_worker, heard
):
    ids = [add(async_handlers.hold_for_ever, name) for name in ("gate", "other")]
    running = start_worker(shutdown_timeout=0.2)
    for name in ("gate", "other"):
        assert handlers.gates[name].arrived.wait(WAIT)

    assert running.stop() == 1

    for id_, name in zip(ids, ("gate", "other"), strict=True):
        job = factories.get(id_)
        assert (job.state, job.attempts, job.errors) == ("queued", 0, [])
        assert handlers.gates[name].left.wait(WAIT)
    assert heard.count("lease_lost") == 0
    wait_until(lambda: not threads())


def test_a_blocked_loop_is_told_of_once_with_who_and_where(start_worker, heard):
    start_worker()
    id_ = add(async_handlers.block, 1.6)
    finished(id_)

    (said,) = heard.of("event_loop_blocked")

    assert said["attempt"].id == id_
    assert "async_handlers.py:" in said["where"]


def test_async_jobs_that_wait_for_slow_ones_go_back(start_worker):
    factories.queued_many(500, task=async_handlers.nothing.task_name)
    slow = factories.queued_many(
        30, task=async_handlers.hold_for_ever.task_name, args=["gate"]
    )
    start_worker(async_slots=2, shutdown_timeout=0)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    wait_until(lambda: factories.states(slow).count("running") == 2)
