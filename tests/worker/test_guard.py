"""Handlers that keep all of their process from running, which a supervisor ends."""

import os
import signal
from contextlib import suppress
from time import monotonic

import pytest

from pgqueue_django.models import Job
from pgqueue_django.worker import guard as module
from pgqueue_django.worker.board import Board
from pgqueue_django.worker.exits import STUCK
from pgqueue_django.worker.guard import Guard
from tests.worker import handlers, stubborn
from tests.worker.conftest import add, finished, in_state, unclaimed_attempt
from tests.worker.test_timeouts import TIMED_OUT

BOTH = {"TASK_MODULES": ["tests.worker.handlers", "tests.worker.stubborn"]}

TIMEOUT = 2.0
BUSY_MACHINE = 3.0


@pytest.fixture
def start(start_process, tmp_path):
    """Return a function that starts a worker in the plainest way."""

    def start(*flags):
        return start_process("--lease=60", *flags, alone=False, pgqueue=BOTH)

    yield start
    # One that keeps the interpreter does not even see that its parent is gone.
    for path in tmp_path.glob("*.held-by-*[0-9]"):
        with suppress(ProcessLookupError):
            os.kill(int(path.name.rpartition("-")[2]), signal.SIGKILL)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        # The task itself says to give up.
        (stubborn.match_catastrophically, {}),
        (stubborn.raise_to_a_huge_power, {"max_attempts": 1}),
    ],
    ids=["regex", "power"],
)
def test_what_keeps_the_interpreter_ends_at_its_timeout(
    start, held_by, let_go, task, options
):
    other = add(handlers.hold, str(let_go.folder), "other", options={"max_attempts": 1})
    process = start()
    first = held_by("other")
    stuck = add(task, str(let_go.folder), options={"timeout": TIMEOUT, **options})
    assert held_by() == first
    began = monotonic()

    job = finished(stuck)

    assert monotonic() - began < TIMEOUT + BUSY_MACHINE
    assert (job.state, job.attempts) == ("dead", 1)
    assert [error["exception"] for error in job.errors] == [TIMED_OUT]
    second = held_by("other", besides=first)
    let_go("other")
    job = finished(other)
    # It is not to blame, so the killing cost it no attempt.
    assert (job.result, job.attempts, job.errors) == (f"done by {second}", 1, [])
    assert finished(add(handlers.where)).result[0] == second
    assert process.stop() == 0


def test_a_job_that_may_be_to_blame_loses_its_attempt(start, held_by, let_go):
    """Else one without a timeout would come back for ever."""
    late = {"timeout": 1.0, "max_attempts": 1}
    overdue = add(handlers.hold, str(let_go.folder), "other", options=late)
    start()
    first = held_by("other")
    blamed = add(stubborn.match_catastrophically, str(let_go.folder))
    held_by()

    assert finished(overdue).errors[0]["exception"] == TIMED_OUT
    held_by(besides=first)
    job = Job.objects.get(pk=blamed)
    assert (job.attempts, job.errors[0]["message"]) == (2, "worker process died")


def test_a_stop_is_not_held_up(start, held_by, let_go):
    process = start("--shutdown-timeout=60")
    options = {"timeout": TIMEOUT}
    stuck = add(stubborn.match_catastrophically, str(let_go.folder), options=options)
    held_by()

    process.signal(signal.SIGTERM)

    assert process.wait() == STUCK
    assert in_state(stuck, "dead").errors[0]["exception"] == TIMED_OUT


# --- from outside ---------------------------------------------------------------------


@pytest.fixture
def board():
    return Board()


def look(board, beating=False):
    """Look often enough; return what is found in the end."""
    guard = Guard(os.getpid(), board)
    found = None
    for _ in range(module._SILENT + 1):
        if beating:
            board.beat()
        found = guard.look()
    return found


def at(monkeypatch, seconds):
    """Move the supervisor's clock on from now."""
    now = monotonic()
    monkeypatch.setattr(module, "monotonic", lambda: now + seconds)


def test_only_what_is_silent_is_ended(board):
    attempt = unclaimed_attempt()
    board.put_up(attempt, monotonic() - 3600, 0)

    assert look(board, beating=True) is None
    found = look(board)

    assert [limit.id for limit in found.overdue] == [attempt.id]
    assert found.overdue[0].token == attempt.token
    assert not found.proven


def test_a_silent_process_with_time_left_goes_on(board):
    assert look(board) is None
    board.put_up(unclaimed_attempt(), monotonic() + 3600, 0)
    assert look(board) is None


@pytest.mark.parametrize(
    ("told", "seconds", "ended"),
    [(True, 1.5, False), (True, 2.5, True), (False, 0.5, False), (False, 1.5, True)],
)
def test_who_was_told_of_the_limit_has_the_grace(
    monkeypatch, board, told, seconds, ended
):
    deadline = monotonic() + 100
    board.put_up(unclaimed_attempt(), deadline, 0)
    if told:
        monkeypatch.setattr("pgqueue_django.worker.board.monotonic", lambda: deadline)
        board.beat()
    at(monkeypatch, 100 + seconds)

    assert (look(board) is not None) is ended


def test_a_board_shows_what_was_put_up_and_not_taken_down(board):
    attempts = [unclaimed_attempt(id=n) for n in range(1, 2_000)]
    places = [board.put_up(attempt, 1.0, 7) for attempt in attempts]
    assert places.count(None) == len(attempts) - 1_024

    for place in places[1:1_024]:
        board.take_down(place)
        board.take_down(place)

    assert [(limit.id, limit.thread) for limit in board.limits()] == [(1, 7)]
    assert board.put_up(attempts[5], 1.0, 7) is not None
    assert {limit.id for limit in board.limits()} == {1, 6}
