"""Django's own signals of tasks, as its own backends send them."""

import logging
import sys
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue_django.backends import PgQueueBackend
from pgqueue_django.compat import (
    Task,
    TaskResultStatus,
    task_finished,
    task_started,
)
from pgqueue_django.models import Job
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.leases import Lease
from pgqueue_django.worker.timeouts import TimeLimits
from tests import factories
from tests.worker import handlers

pytestmark = pytest.mark.django_db

LOGGER = Task.__module__.rpartition(".")[0]


def run(task, *args, max_attempts=1):
    attempt = factories.claimed(task.task_name, args=args, max_attempts=max_attempts)
    return Executor(TimeLimits()).run(attempt, Lease(attempt, taken=0, expires=1e12))


@contextmanager
def received(look):
    """Give what a look at each signal's result found, in order."""
    seen = []

    def receive(sender, task_result, **_):
        seen.append((sender, look(task_result)))

    for signal in (task_started, task_finished):
        signal.connect(receive)
    try:
        yield seen
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(receive)


def test_are_sent_by_the_backends_class_before_and_after_the_handler():
    with received(lambda result: (result.status, len(handlers.calls))) as seen:
        run(handlers.echo, "x")
    assert seen == [
        (PgQueueBackend, (TaskResultStatus.RUNNING, 0)),
        (PgQueueBackend, (TaskResultStatus.SUCCESSFUL, 1)),
    ]


def test_the_result_of_a_start_has_what_the_row_has():
    def look(result):
        return result.args, result.worker_ids, result.attempts, result.finished_at

    with received(look) as seen:
        run(handlers.echo, "x", 2)
    assert seen[0][1] == (["x", 2], [factories.WORKER], 1, None)


def test_the_result_of_a_success_has_its_value_and_its_time():
    def look(result):
        return result.is_finished and (
            result.return_value,
            result.finished_at >= result.started_at,
            result.errors,
        )

    with received(look) as seen:
        run(handlers.echo, 1)
    assert [found for _, found in seen] == [False, ([[1], {}], True, [])]


def test_the_result_of_a_failure_has_its_error():
    def look(result):
        return [error.exception_class for error in result.errors], sys.exc_info()[0]

    with received(look) as seen:
        run(handlers.fail, "ValueError")
    assert [found for _, found in seen] == [([], None), ([ValueError], ValueError)]


def test_an_attempt_that_another_follows_finishes_nothing():
    with received(lambda result: result.status) as seen:
        run(handlers.fail, "ValueError", max_attempts=2)
        run(handlers.snooze)
    assert [found for _, found in seen] == [TaskResultStatus.RUNNING] * 2


def test_a_job_that_cancels_itself_has_failed():
    with received(lambda result: result.status) as seen:
        run(handlers.cancel_itself)
    assert seen[-1][1] == TaskResultStatus.FAILED


def test_a_job_that_cannot_start_only_finishes():
    id_ = factories.queued(handlers.echo.task_name).id
    Job.objects.filter(pk=id_).update(args={"no": "list"})
    (attempt,) = factories.claim()
    with received(lambda result: result.status) as seen:
        Executor(TimeLimits()).run(attempt, Lease(attempt, taken=0, expires=1e12))
    assert [found for _, found in seen] == [TaskResultStatus.FAILED]


def test_djangos_own_log_lines_are_written_and_know_the_exception(caplog):
    with caplog.at_level(logging.INFO, LOGGER):
        run(handlers.echo)
        run(handlers.fail, "ValueError")
    lines = [r for r in caplog.records if r.name == LOGGER and r.levelno > 10]
    assert [r.levelname for r in lines] == ["INFO", "INFO", "INFO", "ERROR"]
    assert f"state={TaskResultStatus.SUCCESSFUL}" in lines[1].getMessage()
    assert lines[3].exc_info
    assert lines[3].exc_info[0] is ValueError


def test_whoever_asks_for_the_obvious_costs_no_query(caplog):
    attempt = factories.claimed(handlers.noop.task_name)
    lease = Lease(attempt, taken=0, expires=1e12)
    with (
        caplog.at_level(logging.INFO, LOGGER),
        CaptureQueriesContext(connection) as queries,
    ):
        Executor(TimeLimits()).run(attempt, lease)
    assert len(queries) == 0


def test_a_receiver_that_raises_stops_nothing():
    def receive(**_):
        raise ValueError

    task_started.connect(receive)
    try:
        assert type(run(handlers.noop)).__name__ == "Succeeded"
    finally:
        task_started.disconnect(receive)
