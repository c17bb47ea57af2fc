"""From an attempt to its outcome, without a database."""

import json

import pytest

from pgqueue_django import signals
from pgqueue_django.outcomes import (
    Cancelled,
    Committed,
    Failed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from pgqueue_django.worker.completer import _RECORDERS
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.leases import Lease
from pgqueue_django.worker.timeouts import TimeLimits
from tests.worker import handlers
from tests.worker.conftest import unclaimed_attempt


def attempt_of(task, args="[]", kwargs="{}", *, number=1, max_attempts=2):
    name = task if isinstance(task, str) else task.task_name
    return unclaimed_attempt(
        task=name, args=args, kwargs=kwargs, number=number, max_attempts=max_attempts
    )


def run(*given, **named):
    attempt = attempt_of(*given, **named)
    return Executor(TimeLimits()).run(attempt, Lease(attempt, taken=0, expires=1))


def test_returns_the_result_as_json():
    outcome = run(handlers.echo, '[1, "ż"]', '{"a": null}')
    assert isinstance(outcome, Succeeded)
    assert json.loads(outcome.result) == [[1, "ż"], {"a": None}]


def test_runs_async_handlers():
    assert isinstance(run(handlers.echo_async, "[1]"), Succeeded)


def test_a_failure_is_retried_while_there_are_attempts():
    first = run(handlers.fail, '["ValueError"]')
    last = run(handlers.fail, '["ValueError"]', number=2)

    assert isinstance(first, Retried)
    assert (first.delay, first.failure.message) == (0.0, "wrong")
    assert isinstance(last, Failed)


def test_the_row_and_not_the_task_says_how_many_attempts():
    assert isinstance(run(handlers.fail, '["KeyError"]', max_attempts=9), Retried)
    assert isinstance(
        run(handlers.fail, '["ValueError"]', number=9, max_attempts=9), Failed
    )


@pytest.mark.parametrize("kind", ["SystemExit(3)", "KeyboardInterrupt", "MemoryError"])
@pytest.mark.parametrize("task", [handlers.fail, handlers.fail_async])
def test_never_raises_what_a_handler_raises(task, kind):
    outcome = run(task, f'["{kind}"]')
    assert isinstance(outcome, Retried)
    assert outcome.failure.exception.endswith(kind.partition("(")[0])


def test_directives_become_outcomes():
    snoozed = run(handlers.snooze)
    wrong = run(handlers.snooze_wrongly)
    cancelled = run(handlers.cancel_itself)
    retried = run(handlers.ask_for_retry, "[5]")
    dead = run(handlers.ask_for_retry, "[5]", number=2)

    assert snoozed == Snoozed(7.0)
    assert isinstance(wrong, Retried)
    assert isinstance(cancelled, Cancelled)
    assert isinstance(retried, Retried)
    assert retried.delay == 5
    assert isinstance(dead, Failed)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ("[", "{}"),
        ('{"a": 1}', "{}"),
        ("[]", "[]"),
        (f"[{'9' * 5_000}]", "{}"),
        ("[" * 3_000 + "]" * 3_000, "{}"),
        ("null", "null"),
    ],
)
def test_arguments_that_cannot_be_read_end_the_job(args, kwargs):
    outcome = run(handlers.echo, args, kwargs)
    assert isinstance(outcome, Failed)
    assert outcome.failure.exception.startswith("pgqueue_django.exceptions.InvalidJob")


def test_arguments_that_do_not_fit_the_handler_are_a_failure():
    outcome = run(handlers.fail, '["a", "b", "c"]')
    assert isinstance(outcome, Retried)
    assert outcome.failure.exception == "builtins.TypeError"


def test_an_unknown_task_is_given_back():
    assert run("no.such.task") == Released()


def test_a_policy_of_the_task_counts():
    assert isinstance(run(handlers.fail_by_policy, '["LookupError"]'), Failed)
    waits = run(handlers.fail_by_policy, '["OSError"]')
    assert isinstance(waits, Retried)
    assert waits.delay == 600


def test_a_backoff_that_exits_is_replaced():
    outcome = run(handlers.fail_with_broken_backoff)
    assert isinstance(outcome, Retried)
    assert outcome.delay > 0


def test_a_receiver_that_fails_stops_nothing(caplog):
    def receive(**_: object) -> None:
        raise ValueError("from a receiver")

    signals.job_started.connect(receive)
    try:
        assert isinstance(run(handlers.noop), Succeeded)
    finally:
        signals.job_started.disconnect(receive)
    assert "from a receiver" in caplog.text


def test_outcomes_are_of_known_kinds():
    assert set(_RECORDERS) == {
        Committed,
        Succeeded,
        Retried,
        Failed,
        Snoozed,
        Cancelled,
        Released,
    }
