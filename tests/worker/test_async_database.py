"""The database in async handlers: few connections, and clean ones."""

import sys
import threading
from contextlib import ExitStack

import pytest
from django.db import transaction

from pgqueue_django import signals
from pgqueue_django.compat import task_finished, task_started
from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until
from tests.worker import async_handlers, handlers
from tests.worker.conftest import WAIT, add, finished


def test_calls_of_many_handlers_share_a_few_connections(start_worker):
    ids = factories.queued_many(40, task=async_handlers.backend.task_name, args=[3])
    start_worker(threads=2)

    calls = [call for id_ in ids for call in finished(id_).result]

    assert len(calls) == 120
    assert len({call[0] for call in calls}) <= 2
    assert {call[3] for call in calls} <= {
        "pgqueue-async-call-0",
        "pgqueue-async-call-1",
    }


def test_one_that_sleeps_keeps_no_connection_from_others(start_worker):
    lasting = factories.queued_many(
        10, task=async_handlers.backend_and_wait.task_name, args=["gate"]
    )
    start_worker(threads=1)
    wait_until(lambda: factories.states(lasting).count("running") == 10)

    assert len(finished(add(async_handlers.backend)).result) == 1
    handlers.gates["gate"].opened.set()
    assert {finished(id_).state for id_ in lasting} == {"succeeded"}


def test_session_settings_end_with_the_call(start_worker):
    start_worker(threads=1)
    _pid, timeout, *_ = finished(add(async_handlers.change_session)).result
    assert timeout == "0"


def test_a_transaction_may_span_calls_and_nobody_else_is_in_it(start_worker):
    start_worker(threads=1)
    spanning = add(async_handlers.over_two_calls, "gate")
    assert handlers.gates["gate"].arrived.wait(WAIT)
    other = add(async_handlers.backend)

    first, second = finished(spanning).result

    assert first == second
    assert first[2] is not None
    assert first[4] is True
    assert finished(other).result[0][2] is None


@pytest.mark.parametrize(
    "task", [async_handlers.leave_open, async_handlers.leave_open_at_once]
)
def test_a_transaction_left_open_is_rolled_back_and_told(start_worker, heard, task):
    start_worker(threads=1)
    id_ = add(task)

    job = finished(id_)

    assert (job.state, job.priority) == ("succeeded", 0)
    wait_until(lambda: heard.count("transaction_left_open") == 1)
    (said,) = heard.of("transaction_left_open")
    assert (said["attempt"].id, said["alias"]) == (id_, "default")
    assert finished(add(async_handlers.backend)).result[0][4] is False


def test_the_calls_of_one_handler_run_one_at_a_time(start_worker):
    start_worker(threads=3)
    assert finished(add(async_handlers.sync_calls_at_once)).result == 1


def test_a_call_that_fails_is_the_handlers_own_failure(start_worker):
    start_worker(threads=1)
    id_ = add(async_handlers.fail_in_sql, options={"max_attempts": 1})
    assert "no_such_column" in finished(id_).errors[0]["message"]
    assert finished(add(async_handlers.backend)).state == "succeeded"


def test_a_call_after_the_end_is_refused(start_worker):
    start_worker(threads=1)
    finished(add(async_handlers.call_after_the_end, "gate"))
    assert handlers.gates["gate"].left.wait(WAIT)
    assert handlers.calls == ["the attempt that this call is of has ended"]


def test_a_timeout_ends_the_wait_for_a_thread(start_worker):
    start_worker(threads=1)
    blocking = add(async_handlers.wait_in_sync, "gate")
    assert handlers.gates["gate"].arrived.wait(WAIT)

    waiting = add(async_handlers.backend, options={"timeout": 0.3, "max_attempts": 1})

    assert finished(waiting).errors[0]["exception"].endswith("AttemptTimedOut")
    assert factories.get(blocking).state == "running"


@pytest.fixture
def receive():
    """Return a function that lets a receiver hear a signal."""
    with ExitStack() as stack:

        def connect(signal, receiver):
            signal.connect(receiver, weak=False)
            stack.callback(signal.disconnect, receiver)

        yield connect


def test_receivers_may_use_the_database(start_worker, receive):
    found = []

    def count(**_):
        found.append((Job.objects.count(), threading.current_thread().name))

    for signal in (signals.job_started, task_started, task_finished):
        receive(signal, count)
    start_worker(threads=1)

    finished(add(async_handlers.nothing))

    assert found == [(1, "pgqueue-async-signals-0")] * 3


def test_receivers_find_the_exception_and_its_own_traceback(start_worker, receive):
    found = []
    receive(task_finished, lambda **_: found.append(sys.exc_info()[1]))
    start_worker(threads=1)

    job = finished(add(handlers.fail_async, options={"max_attempts": 1}))

    (error,) = found
    assert (type(error), str(error)) == (ValueError, "wrong")
    assert "asgiref" not in job.errors[0]["traceback"]


def test_a_receiver_that_leaves_a_transaction_open_spoils_nothing(
    start_worker, receive
):
    receive(signals.job_started, lambda **_: transaction.atomic().__enter__())
    start_worker(threads=1)
    jobs = [finished(add(async_handlers.backend)) for _ in range(3)]
    assert [job.result[0][4] for job in jobs] == [False] * 3


def test_without_receivers_nothing_leaves_the_loop(start_worker, caplog, monkeypatch):
    # Other tests' modules may listen.
    monkeypatch.setattr(signals.job_started, "receivers", [])
    caplog.set_level("INFO")
    start_worker(threads=1)
    finished(add(async_handlers.nothing))
    assert not [one for one in threading.enumerate() if "signals" in one.name]
    (line,) = [one for one in caplog.records if "SUCCESSFUL" in one.getMessage()]
    assert line.threadName == "pgqueue-async"
