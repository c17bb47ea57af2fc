"""Processes that run async handlers: signals, kills, and handlers that never end."""

import signal
from time import monotonic

import pytest

from pgqueue_django.worker.exits import STUCK
from pgqueue_django.worker.timeouts import GRACE
from tests import factories
from tests.waiting import wait_until
from tests.worker import async_handlers, handlers
from tests.worker.conftest import WAIT, add, finished

TIMED_OUT = "pgqueue_django.exceptions.AttemptTimedOut"
MANY = 20


@pytest.fixture
def many_held(let_go, tmp_path):
    """Return a function that enqueues many jobs, and one that waits for all to run."""
    ids = [
        add(handlers.hold_async, str(let_go.folder), f"job{number}")
        for number in range(MANY)
    ]

    def all_run(besides: int = 0) -> None:
        def held() -> bool:
            found = {path.name for path in tmp_path.glob("*.held-by-*[0-9]")}
            mine = [name for name in found if not name.endswith(f"-{besides}")]
            return len(mine) == MANY

        wait_until(held, WAIT)

    def let_all_go() -> None:
        for number in range(MANY):
            let_go(f"job{number}")

    return ids, all_run, let_all_go


def test_at_sigterm_all_that_run_come_to_their_end(
    transactional_db, many_held, start_process
):
    ids, all_run, let_all_go = many_held
    process = start_process()
    all_run()

    process.signal(signal.SIGTERM)
    let_all_go()

    assert process.wait() == 0
    assert factories.states(ids) == ["succeeded"] * MANY
    assert {factories.get(id_).attempts for id_ in ids} == {1}


def test_at_the_shutdown_timeout_all_are_released(
    transactional_db, many_held, start_process
):
    ids, all_run, _let_all_go = many_held
    process = start_process("--shutdown-timeout=0.5", "--lease=30")
    all_run()

    began = monotonic()
    assert process.stop() == 1

    assert 0.5 <= monotonic() - began < 4
    for id_ in ids:
        job = factories.get(id_)
        assert (job.state, job.attempts, job.errors) == ("queued", 0, [])


def test_after_a_kill_all_run_again(transactional_db, many_held, start_process):
    ids, all_run, let_all_go = many_held
    process = start_process("--lease=1")
    all_run()
    process.kill()

    second = start_process()
    all_run(besides=process.pid)
    let_all_go()

    for id_ in ids:
        job = finished(id_)
        assert (job.attempts, job.result) == (2, f"done by {second.pid}")
    assert second.stop() == 0


def test_one_that_cannot_be_cancelled_is_given_up_and_the_others_end(
    start_process, held_by, let_go
):
    other = add(handlers.hold_async, str(let_go.folder), "other")
    process = start_process()
    holder = held_by("other")
    options = {"timeout": 0.5, "max_attempts": 1}
    stuck = add(async_handlers.never_cancelled, str(let_go.folder), options=options)
    assert held_by() == holder
    began = monotonic()

    job = finished(stuck)

    assert monotonic() - began < 0.5 + GRACE + 2.0  # of a busy machine
    assert (job.state, job.errors[0]["exception"]) == ("dead", TIMED_OUT)
    assert not process.ended()
    let_go("other")
    assert process.wait() == STUCK
    assert finished(other).attempts == 1


def test_what_runs_beside_one_that_blocks_the_loop_is_released(
    start_process, held_by, let_go
):
    other = add(handlers.hold_async, str(let_go.folder), "other")
    process = start_process("--shutdown-timeout=1", "--lease=30")
    holder = held_by("other")
    options = {"timeout": 0.5, "max_attempts": 1}
    stuck = add(handlers.stuck_async, str(let_go.folder), options=options)
    assert held_by() == holder

    assert finished(stuck).errors[0]["exception"] == TIMED_OUT
    assert process.wait() == STUCK

    assert "the event loop is blocked by tests.worker.handlers.stuck_async" in (
        process.log
    )
    job = factories.get(other)
    assert (job.state, job.attempts) == ("queued", 0)


def test_the_option_says_how_many(start_process, transactional_db):
    process = start_process("--async-slots=7", "--drain")
    assert process.wait() == 0
    process = start_process("--async-slots=0", until=None)
    assert process.wait() == 1
    assert "--async-slots: must be a whole number from 1 to 10,000" in process.log
