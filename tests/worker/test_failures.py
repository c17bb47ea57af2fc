"""Failed attempts: what follows, and what is kept of them."""

import json

import pytest
from django.db import connection

from pgqueue_django import limits
from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import add, finished, in_state

# Kind of failure, and the class that is recorded.
BASE_EXCEPTIONS = {
    "CancelledError": "asyncio.exceptions.CancelledError",
    "SystemExit(0)": "builtins.SystemExit",
    "SystemExit(3)": "builtins.SystemExit",
    "KeyboardInterrupt": "builtins.KeyboardInterrupt",
    "GeneratorExit": "builtins.GeneratorExit",
    "MemoryError": "builtins.MemoryError",
    "RecursionError": "builtins.RecursionError",
    "BaseExceptionGroup": "builtins.BaseExceptionGroup",
    "StopIteration": "builtins.StopIteration",
}
AWKWARD = {
    "AwkwardInit": "tests.worker.handlers.AwkwardInit",
    "BadStr": "tests.worker.handlers.BadStr",
    "EndlessRepr": "tests.worker.handlers.EndlessRepr",
    "ExceptionGroup": "builtins.ExceptionGroup",
    "socket": "builtins.OSError",
    "huge": "builtins.ValueError",
    "chain of 200": "builtins.ValueError",
}


def test_a_failed_attempt_is_kept_with_its_traceback(start_worker):
    id_ = add(handlers.fail_and_wait)
    worker = start_worker()

    job = in_state(id_, "scheduled")

    (error,) = job.errors
    assert error["exception"] == "builtins.ValueError"
    assert error["message"] == "wrong"
    assert error["attempt"] == 1
    assert error["worker"] == worker.identity
    assert "fail_and_wait" in error["traceback"]
    assert job.attempts == 1
    assert job.worker == ""


def test_a_retry_waits_as_its_backoff_says(start_worker):
    id_ = add(handlers.fail_and_wait)
    start_worker()

    in_state(id_, "scheduled")
    assert 580 < factories.seconds_from_now(id_, "run_at") <= 600
    factories.tick(id_, run_at=0)

    wait_until(lambda: factories.get(id_).attempts == 2)
    in_state(id_, "scheduled")
    assert 1_180 < factories.seconds_from_now(id_, "run_at") <= 1_200


def test_a_job_is_dead_after_its_last_attempt(drain):
    id_ = add(handlers.fail)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.attempts) == ("dead", 2)
    assert [error["attempt"] for error in job.errors] == [1, 2]


def test_a_job_that_fails_at_first_succeeds_later(drain):
    id_ = add(handlers.fail_until_last)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.result, len(job.errors)) == ("succeeded", "at attempt 3", 2)


def test_a_backoff_that_fails_is_replaced_by_the_default(start_worker):
    id_ = add(handlers.fail_with_broken_backoff)
    start_worker()

    job = in_state(id_, "scheduled")

    assert job.errors[0]["exception"] == "builtins.SystemExit"
    assert 0 < factories.seconds_from_now(id_, "run_at") < 3_600


@pytest.mark.parametrize(
    ("kind", "state", "attempts"),
    [("LookupError", "dead", 1), ("KeyError", "dead", 5), ("OSError", "scheduled", 1)],
)
def test_the_policy_of_the_nearest_class_counts(drain, kind, state, attempts):
    id_ = add(handlers.fail_by_policy, kind)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.attempts) == (state, attempts)
    if state == "scheduled":
        assert 580 < factories.seconds_from_now(id_, "run_at") <= 600


def test_retry_runs_again_after_the_time_it_says(drain):
    ids = [add(handlers.ask_for_retry, after) for after in (0, 600)]

    assert drain() == 0

    first, second = map(factories.get, ids)
    assert (first.state, first.attempts) == ("dead", 2)
    assert (second.state, second.attempts) == ("scheduled", 1)
    assert second.errors[0]["message"] == "the other side is busy"
    assert 580 < factories.seconds_from_now(second.pk, "run_at") <= 600


def test_snooze_gives_the_attempt_back(drain):
    id_ = add(handlers.snooze_once, "gate", 0)
    later = add(handlers.snooze_once, "later", 600)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.result, job.attempts, job.errors) == ("succeeded", 1, 1, [])
    job = factories.get(later)
    assert (job.state, job.attempts, job.worker) == ("scheduled", 0, "")
    assert 580 < factories.seconds_from_now(later, "run_at") <= 600


def test_a_wrong_delay_is_a_failed_attempt_that_says_so(start_worker):
    id_ = add(handlers.snooze_wrongly)
    start_worker()

    job = in_state(id_, "scheduled")

    assert job.attempts == 1
    assert "Snooze" in job.errors[0]["message"]


def test_cancel_ends_the_job_with_its_reason(drain):
    id_ = add(handlers.cancel_itself)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.attempts) == ("cancelled", 1)
    assert job.errors[0]["message"] == "not wanted any more"


def test_prc_04_no_exception_of_a_handler_ends_the_worker(drain):
    ids = {
        (task.func.__name__, kind): add(task, kind)
        for task in (handlers.fail, handlers.fail_async)
        for kind in BASE_EXCEPTIONS
    }
    good = [add(handlers.noop), add(handlers.echo_async)]

    assert drain(threads=2) == 0

    for (name, kind), id_ in ids.items():
        job = factories.get(id_)
        assert (name, kind, job.state, job.attempts) == (name, kind, "dead", 2)
        expected = BASE_EXCEPTIONS[kind]
        if (name, kind) == ("fail_async", "StopIteration"):
            expected = "builtins.RuntimeError"  # as Python itself makes of it
        assert job.errors[1]["exception"] == expected, (name, kind, job.errors[1])
    assert set(factories.states(good)) == {"succeeded"}


def test_pay_15_16_any_exception_can_be_kept(drain):
    ids = {kind: add(handlers.fail, kind) for kind in AWKWARD}

    assert drain() == 0

    for kind, id_ in ids.items():
        job = factories.get(id_)
        assert (kind, job.state, job.attempts) == (kind, "dead", 2)
        for error in job.errors:
            assert error["exception"] == AWKWARD[kind]
            assert len(error["message"].encode()) <= limits.ERROR_MESSAGE_BYTES
            assert len(error["traceback"].encode()) <= limits.ERROR_TRACEBACK_BYTES


def test_pay_15_the_history_is_bounded(drain):
    id_ = add(handlers.fail_hugely)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.attempts) == ("dead", 30)
    assert [error["attempt"] for error in job.errors] == list(range(11, 31))
    bound = limits.ERRORS_KEPT * (
        limits.ERROR_MESSAGE_BYTES + limits.ERROR_TRACEBACK_BYTES + 1024
    )
    assert len(json.dumps(job.errors, ensure_ascii=False).encode()) < bound


@pytest.mark.parametrize(
    "kind",
    [
        "object",
        "nan",
        "nul",
        "surrogate",
        "deep",
        "long number",
        "colliding keys",
        "large",
    ],
)
def test_a_result_that_cannot_be_stored_is_a_failure_that_says_so(drain, kind):
    id_ = add(handlers.return_unstorable, kind)
    good = add(handlers.noop)

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.attempts, job.result) == ("dead", 1, None)
    assert "result" in job.errors[0]["message"]
    assert factories.get(good).state == "succeeded"


def _insert(task: str, args: str) -> int:
    """Write a row past all checks of the product, as an operator could."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgqueue_job (queue, task, args, kwargs, state, priority,"
            " run_at, enqueued_at, attempts, max_attempts, worker, errors)"
            " SELECT queue, %s, %s::jsonb, '{}', state, priority, run_at, enqueued_at,"
            " 0, 1, '', '[]' FROM pgqueue_job WHERE id = %s RETURNING id",
            [task, args, add(handlers.noop)],
        )
        id_: int = cursor.fetchall()[0][0]
    return id_


@pytest.mark.parametrize(
    "args",
    [
        f"[1{'0' * 5_000}]",
        "[" * 2_000 + "]" * 2_000,
        "[" * 6_000 + "]" * 6_000,
        '{"not": "a list"}',
        "[1, 2, 3]",
    ],
    ids=["PAY-07 long number", "PAY-14 deep", "PAY-14 deeper", "no list", "too many"],
)
def test_pay_07_14_a_bad_row_dies_alone(drain, args):
    good = [add(handlers.echo, number) for number in range(5)]
    bad = _insert(handlers.wait_at.task_name, args)
    good += [add(handlers.echo, number) for number in range(4)]

    assert drain(threads=10) == 0

    assert set(factories.states(good)) == {"succeeded"}
    # Python cannot read the arguments, here neither.
    job = Job.objects.defer("args").get(pk=bad)
    assert (job.state, job.attempts) == ("dead", 1)
    assert job.errors[0]["message"]


def test_a_failing_job_leaves_its_thread_for_the_next(start_worker):
    start_worker(threads=1)
    for _ in range(20):
        add(handlers.fail, "SystemExit(3)")
    assert finished(add(handlers.noop)).state == "succeeded"
