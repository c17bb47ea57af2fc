"""What django.tasks asks of any backend: cases that its own backends' tests have."""

import dataclasses
from datetime import UTC, datetime

import pytest
from django.db import transaction

from pgqueue_django import task
from pgqueue_django.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from pgqueue_django.models import Job
from pgqueue_django.testing import run_jobs
from tests import factories
from tests.tasks import failing, handlers
from tests.tasks.conftest import BACKEND

pytestmark = pytest.mark.django_db


@pytest.fixture
def ended():
    """Return a function that enqueues a call, runs it, and gives its end."""

    def run(called, *args, **kwargs):
        result = called.using(max_attempts=1).enqueue(*args, **kwargs)
        run_jobs()
        result.refresh()
        return result

    return run


def test_times_are_in_the_order_of_a_jobs_life(ended):
    result = ended(handlers.add, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert result.is_finished


@pytest.mark.parametrize("called", [handlers.add, handlers.add_async])
def test_sync_and_async_handlers_end_alike(ended, called):
    result = ended(called, 1, second=2)
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    assert (result.attempts, len(result.worker_ids), result.errors) == (1, 1, [])


def test_the_context_tells_the_first_attempt(ended):
    assert ended(handlers.tell_attempt, 1).return_value is True


@pytest.mark.parametrize(
    ("called", "error"),
    [
        (failing.value_error, ValueError),
        (failing.exits, SystemExit),
        (failing.interrupted, KeyboardInterrupt),
        (failing.of_another_type, TypeError),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_whatever_a_handler_raises_is_its_error(ended, called, error):
    result = ended(called)
    assert result.status == TaskResultStatus.FAILED
    (told,) = result.errors
    assert issubclass(told.exception_class, error)
    assert called.func.__name__ in told.traceback or error is TypeError
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_an_exception_with_what_cannot_be_stored_is_told(ended):
    (error,) = ended(failing.complex_error).errors
    assert error.exception_class is ValueError
    assert "complex_error" in error.traceback
    assert "KeyError" in error.traceback


def test_a_failure_to_come_is_not_told_as_a_value():
    result = handlers.add.enqueue(1)
    with pytest.raises(ValueError, match="not finished yet"):
        _ = result.return_value


def test_a_refresh_changes_nothing_where_nothing_happened():
    result = handlers.add.enqueue(1, second=2)
    before = dataclasses.asdict(result)
    result.refresh()
    assert dataclasses.asdict(result) == before


def test_using_makes_a_new_task_each_time():
    first = handlers.add.using(priority=1)
    assert first is not handlers.add.using(priority=1)
    assert first == handlers.add.using(priority=1)
    chained = handlers.add.using(priority=1).using(queue_name="mail")
    assert (chained.priority, chained.queue_name) == (1, "mail")
    assert handlers.add.priority == 0


@pytest.mark.parametrize("priority", [-101, 101, 3.1])
def test_a_priority_out_of_bounds_is_refused(priority):
    with pytest.raises(InvalidTask, match="priority"):
        handlers.add.using(priority=priority)


def test_a_start_without_a_zone_is_refused_under_use_tz():
    with pytest.raises(InvalidTask, match=r"run_after|run_at"):
        handlers.add.using(run_after=datetime(2026, 1, 1))  # noqa: DTZ001
    past = handlers.add.using(run_after=datetime(2001, 1, 1, tzinfo=UTC))
    assert Job.objects.get(pk=past.enqueue(1).job_id).state == "queued"


def test_an_option_that_is_misspelt_comes_with_the_right_one():
    with pytest.raises(TypeError, match="priority"):
        handlers.add.using(priorty=1)
    with pytest.raises(TypeError, match="max_attempts"):
        task(max_atempts=3)  # type: ignore[call-overload]


def test_aliases_read_each_others_results(tasks_setting):
    tasks_setting(a={"BACKEND": BACKEND}, b={"BACKEND": BACKEND})
    result = handlers.add.using(backend="a").enqueue(1)
    assert task_backends["b"].get_result(result.id).backend == "b"
    assert task_backends["a"].get_result(result.id) == result


def test_results_from_a_rolled_back_transaction_do_not_exist():
    with transaction.atomic():
        result = handlers.add.enqueue(1)
        transaction.set_rollback(True)
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


@pytest.mark.parametrize("name", ["tests.tasks.handlers.gone", "no.module.task", "x"])
def test_missing_and_invalid_task_paths_can_be_read(name):
    job = factories.queued(name)
    read = handlers.add.get_backend().get_result(str(job.pk))
    assert read.status == TaskResultStatus.READY
