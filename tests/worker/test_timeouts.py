"""Handlers that run for longer than their tasks allow."""

from time import monotonic

import pytest

from pgqueue_django.attempts import Attempt
from pgqueue_django.exceptions import AttemptTimedOut
from pgqueue_django.worker import timeouts
from pgqueue_django.worker.exits import STUCK
from pgqueue_django.worker.timeouts import GRACE, TimeLimits
from tests import factories
from tests.threads import Started
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import add, finished, unclaimed_attempt

TIMED_OUT = "pgqueue_django.exceptions.AttemptTimedOut"


@pytest.mark.parametrize(
    "task",
    [
        handlers.run_too_long,
        handlers.run_too_long_async,
        handlers.swallow_the_timeout,
    ],
    ids=lambda task: task.func.__name__,
)
def test_a_handler_that_takes_too_long_fails(drain, task):
    began = monotonic()
    id_ = add(task)
    good = add(handlers.noop)

    assert drain(threads=1) == 0

    job = factories.get(id_)
    assert (job.state, job.errors[0]["exception"]) == ("dead", TIMED_OUT)
    assert factories.get(good).state == "succeeded"
    assert monotonic() - began < 10


def test_a_timeout_of_one_call_counts(drain):
    id_ = add(handlers.wait_at, "gate", options={"timeout": 0.3, "max_attempts": 1})

    # The handler waits in C, in steps of its own, so the gate must end the wait.
    opener = Started(lambda: _open_after_arrival("gate", 0.5))
    assert drain() == 0
    opener.result()

    job = factories.get(id_)
    assert (job.state, job.errors[0]["exception"]) == ("dead", TIMED_OUT)


def _open_after_arrival(gate: str, seconds: float) -> None:
    assert handlers.gates[gate].arrived.wait(20)
    until = monotonic() + seconds
    wait_until(lambda: monotonic() > until)
    handlers.gates[gate].opened.set()


def test_a_handler_that_is_quick_enough_succeeds(drain):
    id_ = add(handlers.short_enough)
    assert drain() == 0
    assert factories.get(id_).result == "in time"


def test_a_timeout_error_of_the_handlers_own_stays_what_it_is(drain):
    id_ = add(handlers.own_timeout_error)
    assert drain() == 0
    assert factories.get(id_).errors[0]["exception"] == "builtins.TimeoutError"


def test_a_limit_that_is_not_reached_does_nothing():
    limits = TimeLimits()
    echo = {"attempt": 1, "function": 2, "self": 3}
    for seconds in (10.0, None):
        assert limits.call(limited_to(seconds), dict, **echo) == echo
        with limits.watching(limited_to(seconds)):
            limits.enforce()
            assert limits.give_up() == []
    limits.call(limited_to(10), limits.enforce)
    limits.enforce()
    assert not limits._running


def limited_to(seconds: float | None) -> Attempt:
    return unclaimed_attempt(timeout_seconds=seconds)


def test_what_does_not_end_is_given_up_once(monkeypatch):
    monkeypatch.setattr(timeouts, "GRACE", 0.0)
    limits, attempt = TimeLimits(), limited_to(0.0)

    with limits.watching(attempt):
        seen = [limits.give_up(), limits.give_up()]

    assert seen == [[attempt], []]
    assert limits.gave_up(attempt)
    assert not limits.gave_up(limited_to(0.0))


def test_another_attempt_of_the_same_claim_is_not_given_up_with_it(monkeypatch):
    monkeypatch.setattr(timeouts, "GRACE", 0.0)
    limits, stuck = TimeLimits(), limited_to(0.0)
    fellow = stuck._replace(id=stuck.id + 1)

    with limits.watching(stuck):
        assert limits.give_up() == [stuck]
    assert limits.gave_up(stuck)
    assert not limits.gave_up(fellow)
    with limits.watching(fellow):
        assert limits.give_up() == [fellow]


def spin(seconds: float) -> str:
    until = monotonic() + seconds
    while monotonic() < until:
        pass
    return "in time"


def test_no_exception_arrives_after_the_end():
    """Race the end of a call against its limit: what follows is never hit."""
    limits = TimeLimits()
    over: list[str] = []

    def enforce() -> None:
        while not over:
            limits.enforce()

    def race(seconds: float) -> str:
        try:
            return limits.call(limited_to(seconds), spin, 0.00008)
        except AttemptTimedOut:
            return "too late"

    with Started(enforce):
        try:
            # Where an exception came late it would end the test, here or below.
            outcomes = [race(0.00002 * (number % 10)) for number in range(3_000)]
            spin(0.01)
        finally:
            over.append("over")

    assert len(outcomes) == 3_000
    assert not limits._running


# --- handlers that nothing in Python can end ------------------------------------------

STUCK_FOR = {"timeout": 0.5, "max_attempts": 1}


@pytest.mark.parametrize(
    "task", [handlers.stuck, handlers.stuck_async], ids=lambda task: task.func.__name__
)
def test_a_worker_with_a_stuck_handler_ends_when_its_other_jobs_have(
    start_process, held_by, let_go, task
):
    other = add(handlers.hold, str(let_go.folder), "other")
    process = start_process()
    holder = held_by("other")
    stuck = add(task, str(let_go.folder), options=STUCK_FOR)
    assert held_by() == holder
    began = monotonic()

    job = finished(stuck)

    assert monotonic() - began < 0.5 + GRACE + 2.0  # of a busy machine
    assert (job.state, job.errors[0]["exception"]) == ("dead", TIMED_OUT)
    assert not process.ended()
    left_over = add(handlers.noop)
    let_go("other")
    assert process.wait() == STUCK
    assert (finished(other).attempts, factories.get(left_over).state) == (1, "queued")


def test_a_supervisor_replaces_a_worker_with_a_stuck_handler_at_once(
    start_process, held_by, let_go
):
    stuck = add(handlers.stuck, str(let_go.folder), options=STUCK_FOR)
    process = start_process("--processes=1")
    first = held_by()
    assert finished(stuck).errors[0]["exception"] == TIMED_OUT

    after = finished(add(handlers.where))

    assert after.result[0] not in (first, process.pid)
    assert after.attempts == 1
    assert process.stop() == 0
