import json

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from pgqueue_django import Cancel, UnknownTask
from pgqueue_django.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
)
from pgqueue_django.failures import Failure
from pgqueue_django.models import Job
from pgqueue_django.registry import name_of
from pgqueue_django.states import State
from tests.tasks import handlers

pytestmark = pytest.mark.django_db


def claim(worker="worker-1", lease=30):
    (attempt,) = Job.objects.claim("default", limit=1, worker=worker, lease=lease)
    return attempt


def failure(error):
    return Failure.of(error).as_json()


@pytest.fixture
def result():
    return handlers.add.enqueue(1, second=2)


def test_reads_what_was_enqueued(result):
    assert handlers.add.get_result(result.id) == result
    assert async_to_sync(handlers.add.aget_result)(result.id) == result


def test_reads_all_that_a_call_asked_for():
    called = handlers.add.using(
        priority=4,
        queue="mail",
        idempotency_key="k",
        unique_key="u",
        max_attempts=8,
        timeout=2,
    )
    read = handlers.add.get_result(called.enqueue(1).id)
    assert read.task == called


def test_a_claimed_job_is_running(result):
    claim()
    result.refresh()
    assert result.status == TaskResultStatus.RUNNING
    assert (result.worker_ids, result.attempts) == (["worker-1"], 1)
    assert result.started_at == result.last_attempted_at >= result.enqueued_at
    assert result.finished_at is None


def test_a_succeeded_job_has_its_value(result):
    Job.objects.ack(claim(), json.dumps({"sum": [3, None, 1.5]}))
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.is_finished
    assert result.return_value == {"sum": [3, None, 1.5]}
    assert result.finished_at >= result.started_at
    assert (result.errors, result.worker_ids) == ([], ["worker-1"])


def test_a_value_of_none_is_a_value(result):
    Job.objects.ack(claim())
    assert handlers.add.get_result(result.id).return_value is None


def test_a_job_that_waits_for_its_next_attempt_is_ready(result):
    Job.objects.retry(claim("first"), failure(ValueError("once")), delay=60)
    result.refresh()
    assert result.status == TaskResultStatus.READY
    assert (result.worker_ids, result.attempts) == (["first"], 1)
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert "ValueError: once" in error.traceback


def test_attempts_and_errors_are_told_in_order(result):
    Job.objects.retry(claim("first"), failure(ValueError("one")))
    Job.objects.retry(claim("second"), failure(KeyError("two")))
    Job.objects.ack(claim("third"), "3")
    result.refresh()
    assert result.worker_ids == ["first", "second", "third"]
    assert [error.exception_class for error in result.errors] == [ValueError, KeyError]
    assert result.return_value == 3
    assert result.last_attempted_at >= result.started_at


def test_a_dead_job_has_failed(result):
    Job.objects.fail(claim(), failure(ZeroDivisionError("no")))
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.is_finished
    assert [error.exception_class for error in result.errors] == [ZeroDivisionError]
    with pytest.raises(ValueError, match="Task failed"):
        result.return_value  # noqa: B018 - the property is the test


def test_a_cancelled_job_has_failed_and_says_so(result):
    Job.objects.cancel(result.job_id)
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is Cancel
    assert "cancelled" in error.traceback


def test_a_job_cancelled_after_a_failure_tells_both(result):
    Job.objects.retry(claim("first"), failure(ValueError("once")), delay=60)
    Job.objects.cancel(result.job_id)
    result.refresh()
    assert [error.exception_class for error in result.errors] == [ValueError, Cancel]
    assert result.attempts == 1


def test_a_job_cancelled_by_its_handler_says_it_once(result):
    Job.objects.cancel_held(claim(), failure(Cancel("not needed")))
    result.refresh()
    (error,) = result.errors
    assert "not needed" in error.traceback


def test_a_snooze_is_no_attempt(result):
    Job.objects.snooze(claim(), 60)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 0)


def test_a_job_set_aside_is_ready(result):
    Job.objects.park(claim())
    result.refresh()
    assert Job.objects.get().state == State.UNSERVED
    assert result.status == TaskResultStatus.READY


def test_attempts_count_even_where_the_history_is_gone(result):
    Job.objects.retry(claim("first"), failure(ValueError("one")))
    Job.objects.retry(claim("second"), failure(ValueError("two")))
    Job.objects.filter(pk=result.job_id).update(errors=[])
    result.refresh()
    assert (result.worker_ids, result.attempts) == (["", ""], 2)


def test_a_requeued_job_counts_anew(result):
    Job.objects.fail(claim("first"), failure(ValueError("one")))
    Job.objects.requeue_many([result.job_id])
    claim("second")
    result.refresh()
    assert result.worker_ids == ["second"]
    assert len(result.errors) == 1


def test_every_state_has_a_status():
    from pgqueue_django.results import STATUSES

    assert set(STATUSES) == set(State)


@pytest.mark.parametrize(
    "result_id",
    [
        "123",
        "",
        "0",
        "-1",
        "01",
        " 1",
        "1 ",
        "1\n",
        "1.0",
        "one",
        "٣",
        "1" * 40,
        str(2**63),
        "9" * 10_000,
        "f6ad2b8e-0d0c-4a6f-9d58-0b7d0a4ae5b4",
        "1\0",
        None,
        1.5,
        True,
        10**5000,
        b"1",
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_ids_of_no_job_do_not_exist(result_id):
    with pytest.raises(TaskResultDoesNotExist):
        handlers.add.get_result(result_id)
    with pytest.raises(TaskResultDoesNotExist):
        async_to_sync(handlers.add.aget_result)(result_id)


def test_a_pruned_job_does_not_exist(result):
    Job.objects.all().delete()
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_a_result_of_another_task_is_a_mismatch(result):
    for look in (handlers.noop.get_result, async_to_sync(handlers.noop.aget_result)):
        with pytest.raises(TaskResultMismatch, match="Task does not match"):
            look(result.id)


def test_a_result_of_a_task_that_is_gone_can_be_read(result):
    Job.objects.update(task="shop.tasks.gone")
    read = handlers.add.get_backend().get_result(result.id)
    assert (read.args, read.task.module_path) == ([1], "shop.tasks.gone")
    with pytest.raises(UnknownTask, match=r"shop\.tasks\.gone"):
        read.task.call()
    with pytest.raises(InvalidTask):
        read.task.enqueue()
    with pytest.raises(TaskResultMismatch, match=r"shop\.tasks\.gone"):
        handlers.add.get_result(result.id)


def test_a_name_without_a_module_can_be_gone_too(result):
    Job.objects.update(task="renamed")
    read = handlers.add.get_backend().get_result(result.id)
    assert name_of(read.task) == "renamed"


def test_a_result_can_be_read_where_its_queue_is_no_longer_allowed(tasks_setting):
    from tests.tasks.conftest import BACKEND

    result = handlers.add.using(queue="old").enqueue(1)
    tasks_setting(pgqueue={"BACKEND": BACKEND, "QUEUES": ["new"]})
    assert (
        handlers.add.using(queue="new").get_result(result.id).task.queue_name == "old"
    )


def test_odd_entries_in_the_history_are_left_out(result):
    with connection.cursor() as cursor:
        cursor.execute("""UPDATE pgqueue_job SET errors = '[1, null, {}, "x"]'""")
    result.refresh()
    assert len(result.errors) == 1
