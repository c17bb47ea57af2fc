"""The end of a worker process: in order, in time, and with nothing left leased."""

import os
import signal
import subprocess
from contextlib import suppress
from time import monotonic

import psutil
import pytest

from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers, rough
from tests.worker.conftest import FAST, add, finished, in_state, pause

PROMPT = 2.0
"""Seconds within which a second signal ends everything."""

LATE_JOB = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at, attempts,
    max_attempts, worker, errors
)
VALUES ('default', %s, '[]', '{}', 'queued', 0, now(), now(), 0, 5, '', '[]')
"""

CLAIM_WAITS = """
SELECT pid
FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND application_name LIKE 'pgqueue claimer %'
"""


def none_leased() -> bool:
    return not Job.objects.exclude(lease_token=None).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_running_jobs_finish(start_process, held_by, let_go, number):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--threads=1")
    held_by()
    waiting = add(handlers.noop)

    process.signal(number)
    pause(0.3)
    assert not process.ended()
    let_go()

    assert process.wait() == 0
    assert factories.get(id_).state == "succeeded"
    job = factories.get(waiting)
    assert (job.state, job.attempts) == ("queued", 0)
    assert none_leased()


@pytest.fixture
def claim_waits(connect):
    """Return a function that tells whether a claim waits for a lock."""
    watch = connect()
    return lambda: watch.execute(CLAIM_WAITS).fetchone() is not None


def test_a_claim_that_is_held_up_is_waited_for_and_given_back(
    start_process, connect, claim_waits
):
    process = start_process("--poll-interval=0.1")
    other = connect()
    with other.transaction():
        other.execute("LOCK TABLE pgqueue_job")
        other.execute(LATE_JOB, [handlers.noop.task_name])
        wait_until(claim_waits)
        process.signal(signal.SIGTERM)
        pause(1.5)
        assert not process.ended()

    assert process.wait() == 0
    assert factories.states() == ["queued"]
    assert Job.objects.get().attempts == 0


def test_a_claim_that_is_held_up_for_too_long_is_no_clean_end(
    start_process, connect, claim_waits
):
    process = start_process("--poll-interval=0.1", "--shutdown-timeout=1")
    other = connect()
    with other.transaction():
        other.execute("LOCK TABLE pgqueue_job")
        wait_until(claim_waits)
        process.signal(signal.SIGTERM)
        assert process.wait() == 1


def test_an_idle_worker_ends_at_once(start_process):
    process = start_process("--poll-interval=60")
    began = monotonic()

    assert process.stop() == 0

    assert monotonic() - began < 5


@pytest.mark.parametrize(
    ("task", "numbers"),
    [
        (handlers.hold, [signal.SIGINT, signal.SIGINT]),
        (handlers.stuck, [signal.SIGTERM, signal.SIGINT]),
        (handlers.hold_async, [signal.SIGTERM, signal.SIGTERM]),
        (handlers.stuck_async, [signal.SIGINT, signal.SIGTERM, signal.SIGINT]),
    ],
    ids=lambda value: value.func.__name__ if hasattr(value, "func") else None,
)
def test_prc_12_a_second_signal_releases_what_runs(
    start_process, held_by, let_go, task, numbers
):
    ids = [add(task, str(let_go.folder)) for _ in range(3)]
    process = start_process("--threads=2", "--lease=30")
    held_by()

    for number in numbers[:-1]:
        process.signal(number)
        pause(0.2)
    last = monotonic()
    process.signal(numbers[-1])
    code = process.wait()

    # A busy machine gets some grace beyond what is promised.
    assert monotonic() - last < PROMPT + 1
    assert code == 1
    assert none_leased()
    for id_ in ids:
        job = factories.get(id_)
        assert (job.state, job.attempts, job.errors) == ("queued", 0, [])


def test_prc_12_two_signals_at_the_same_moment(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--lease=30")
    held_by()

    began = monotonic()
    process.signal(signal.SIGTERM, signal.SIGINT)

    assert process.wait() == 1
    assert monotonic() - began < PROMPT + 1
    assert factories.get(id_).state == "queued"
    assert none_leased()


def test_prc_12_a_third_signal_changes_nothing(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--lease=30")
    held_by()

    began = monotonic()
    process.signal(signal.SIGINT, signal.SIGINT, signal.SIGTERM)

    assert process.wait() == 1
    assert monotonic() - began < PROMPT + 1
    assert factories.get(id_).state == "queued"
    assert none_leased()


def test_prc_12_a_failure_whose_write_is_under_way(
    start_process, proxy, held_by, let_go
):
    id_ = add(rough.hold_and_fail, str(let_go.folder))
    process = start_process(
        "--lease=30",
        HOST="127.0.0.1",
        PORT=str(proxy.port),
        OPTIONS={"sslmode": "disable", "gssencmode": "disable"},
    )
    held_by()
    # The completer has a connection by then.
    finished(add(handlers.noop))
    assert len(proxy.mute("pgqueue completer")) == 1

    # The server has it, and the worker waits for an answer.
    let_go()
    in_state(id_, "dead")
    process.signal(signal.SIGTERM, signal.SIGINT)
    last = monotonic()

    process.wait()
    assert monotonic() - last < PROMPT + 1
    job = factories.get(id_)
    assert (job.state, job.attempts, len(job.errors)) == ("dead", 1, 1)
    assert none_leased()


# A namespace of processes of its own, in which the program is the first.
AS_FIRST = [
    *("unshare", "--pid", "--fork", "--kill-child"),
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
]


# A small init, which passes on what it hears and ends with its child's exit code.
UNDER_INIT = [
    *AS_FIRST,
    *("sh", "-c", """
        trap 'kill -TERM $child' TERM
        trap 'kill -INT $child' INT
        "$@" & child=$!
        wait $child
        wait $child
    """, "init"),
]  # fmt: skip


def can_be_first() -> bool:
    with suppress(FileNotFoundError):
        return subprocess.run([*AS_FIRST, "true"], check=False).returncode == 0
    return False


@pytest.mark.skipif(not can_be_first(), reason="no namespaces of processes here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("flags", [[], ["--processes=1"]], ids=["worker", "supervisor"])
@pytest.mark.parametrize("prefix", [AS_FIRST, UNDER_INIT], ids=["first", "under init"])
def test_prc_09_as_the_first_process_of_a_container_and_under_an_init(
    start_process, held_by, let_go, number, flags, prefix
):
    """There the kernel ignores every signal that a program does not handle itself."""
    short, long = (
        add(handlers.hold, str(let_go.folder), name) for name in ("short", "long")
    )
    process = start_process("--shutdown-timeout=2", "--lease=30", *flags, prefix=prefix)
    if not flags and prefix is AS_FIRST:
        assert held_by("short") == 1
    wait_until(lambda: factories.states([short, long]) == ["running"] * 2)
    (first,) = psutil.Process(process.pid).children()

    first.send_signal(number)
    let_go("short")

    assert process.wait() == 1
    assert finished(short).attempts == 1
    job = factories.get(long)
    assert (job.state, job.attempts) == ("queued", 0)
    assert none_leased()


def test_prc_11_a_signal_to_the_whole_group(start_process, held_by, let_go):
    ids = [add(handlers.hold, str(let_go.folder)) for _ in range(2)]
    process = start_process("--threads=2")
    held_by()
    wait_until(lambda: factories.states(ids) == ["running"] * 2)

    process.signal_group(signal.SIGTERM)
    let_go()

    assert process.wait() == 0
    assert factories.states(ids) == ["succeeded"] * 2


def test_prc_11_a_handler_with_a_subprocess_finishes(start_process, held_by, let_go):
    id_ = add(handlers.hold_with_subprocess, str(let_go.folder))
    process = start_process()
    held_by()

    process.signal_group(signal.SIGINT)
    let_go()

    assert process.wait() == 0
    job = factories.get(id_)
    assert (job.state, job.result) == ("succeeded", 0)


def test_prc_13_at_the_shutdown_timeout_running_jobs_are_released(
    start_process, held_by, let_go
):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--shutdown-timeout=0.5", "--lease=30")
    held_by()

    began = monotonic()
    assert process.stop() == 1

    assert 0.5 <= monotonic() - began < 4
    job = factories.get(id_)
    assert (job.state, job.attempts, job.errors) == ("queued", 0, [])
    assert none_leased()
    second = start_process()
    assert held_by(besides=process.pid) == second.pid
    let_go()
    assert finished(id_).attempts == 1
    assert second.stop() == 0


def test_a_shutdown_timeout_of_nothing_releases_at_once(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process("--shutdown-timeout=0", "--lease=30")
    held_by()

    assert process.stop() == 1
    assert factories.get(id_).state == "queued"


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT] * 2])
def test_signals_are_answered_while_the_database_is_away(start_process, proxy, numbers):
    process = start_process(
        HOST="127.0.0.1",
        PORT=str(proxy.port),
        OPTIONS={"sslmode": "disable", "gssencmode": "disable"},
    )
    finished(add(handlers.noop))
    proxy.refuse()
    proxy.cut()
    process.wait_for("trying again")

    began = monotonic()
    process.signal(*numbers)
    assert process.wait() == 0

    assert monotonic() - began < 5


def test_an_outcome_that_cannot_be_recorded_ends_the_wait_at_the_timeout(
    start_process, proxy, held_by, let_go
):
    id_ = add(handlers.hold, str(let_go.folder))
    process = start_process(
        "--shutdown-timeout=1",
        "--lease=1",
        HOST="127.0.0.1",
        PORT=str(proxy.port),
        OPTIONS={"sslmode": "disable", "gssencmode": "disable"},
    )
    held_by()
    proxy.refuse()
    proxy.cut()
    let_go()

    assert process.stop() == 1

    # The row's own lease brings it back.
    second = start_process()
    job = in_state(id_, "succeeded")
    assert (job.attempts, job.result) == (2, f"done by {second.pid}")
    assert second.stop() == 0


def test_the_handlers_before_come_back_after_the_run(transactional_db):
    from pgqueue_django import Worker

    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    add(handlers.noop)
    assert Worker(drain=True, **FAST).run() == 0
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_signal_to_this_process_stops_a_worker_in_its_main_thread(transactional_db):
    from pgqueue_django import Worker, signals

    def stop(**_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    signals.worker_started.connect(stop)
    try:
        assert Worker(**FAST).run() == 0
    finally:
        signals.worker_started.disconnect(stop)
