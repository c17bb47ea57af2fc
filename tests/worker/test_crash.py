"""Workers that die: their jobs run again, soon, and not for ever."""

import os
import signal
from time import monotonic

import pytest

from pgqueue_django.models import Job
from tests import factories
from tests.worker import handlers, rough
from tests.worker.conftest import add, finished, in_state

LEASE = 1.0


def test_lea_19_after_kill_9_another_worker_runs_the_job(
    start_process, held_by, let_go
):
    id_ = add(handlers.hold, str(let_go.folder))
    first = start_process("--lease=1")
    assert held_by() == first.pid
    token = factories.get(id_).lease_token
    second = start_process("--lease=1")

    killed_at = monotonic()
    os.kill(first.pid, signal.SIGKILL)
    assert held_by(besides=first.pid) == second.pid
    took = monotonic() - killed_at

    assert took < LEASE + 2
    job = factories.get(id_)
    assert (job.attempts, job.state) == (2, "running")
    assert job.lease_token != token
    assert job.errors[0]["exception"] == "pgqueue_django.exceptions.LeaseExpired"
    let_go()
    assert finished(id_).result == f"done by {second.pid}"
    assert second.stop() == 0


def test_lea_19_all_jobs_of_the_only_worker_run_again(start_process, held_by, let_go):
    names = [f"job {number}" for number in range(5)]
    ids = [add(handlers.hold, str(let_go.folder), name) for name in names]
    first = start_process("--threads=5", "--lease=1")
    for name in names:
        held_by(name)
    first.process.kill()
    first.wait()
    for name in names:
        let_go(name)

    second = start_process("--threads=5", "--lease=1")

    for id_ in ids:
        job = finished(id_)
        assert (job.state, job.attempts) == ("succeeded", 2)
        assert job.result == f"done by {second.pid}"
    assert second.stop() == 0


@pytest.mark.parametrize("how", ["SIGKILL", "segmentation fault"])
def test_prc_05_a_job_that_kills_its_workers_ends_as_dead(start_process, how):
    id_ = add(rough.die, how, options={"max_attempts": 2})
    good = add(handlers.noop, options={"priority": -1})
    for _ in range(2):
        process = start_process("--lease=1", until=None)
        assert process.wait() in {-signal.SIGKILL, -signal.SIGSEGV}
    last = start_process("--lease=1")

    job = finished(id_)

    assert (job.state, job.attempts) == ("dead", 2)
    assert [error["message"] for error in job.errors] == ["lease expired"] * 2
    assert finished(good).state == "succeeded"
    assert last.stop() == 0


def test_prc_05_jobs_that_kill_children_end_as_dead_and_others_get_through(
    start_process,
):
    """The lease is long: what ends it is that the supervisor sees the deaths."""
    bad = [add(rough.die, how) for how in rough.DEATHS]
    good = factories.queued_many(20, task=handlers.noop.task_name, max_attempts=50)
    process = start_process("--processes=2", "--lease=60", "--threads=1")

    for id_ in bad:
        job = finished(id_, timeout=60)
        assert (job.state, job.attempts) == ("dead", 3)
        assert {error["message"] for error in job.errors} == {"worker process died"}
    assert {finished(id_).state for id_ in good} == {"succeeded"}
    assert not process.ended()
    assert process.stop() == 0


def test_prc_04_exits_and_interrupts_of_handlers_end_no_process(start_process):
    worker = start_process()
    bad = [
        add(task, kind)
        for task in (handlers.fail, handlers.fail_async)
        for kind in ("SystemExit(3)", "KeyboardInterrupt")
    ]
    good = add(handlers.where)

    assert {finished(id_).state for id_ in bad} == {"dead"}
    assert finished(good).result[0] == worker.pid
    assert worker.stop() == 0


def test_a_claim_of_a_worker_that_died_at_once_is_recovered(start_worker):
    """Only the row's own lease says so: nobody ever heard of that worker."""
    id_ = factories.queued(handlers.noop.task_name).pk
    factories.claim(worker="never seen", lease=0.3)
    start_worker()

    assert finished(id_).attempts == 2


def test_a_dead_workers_job_with_no_attempts_left_is_dead(start_worker, heard):
    id_ = factories.queued(handlers.noop.task_name, max_attempts=1).pk
    factories.claim(worker="never seen", lease=0.3)
    running = start_worker()

    job = in_state(id_, "dead")

    assert job.errors[0]["worker"] == "never seen"
    assert running.stop() == 0
    assert [said["reaped"].state for said in heard.of("lease_expired")] == ["dead"]
    assert Job.objects.filter(state="running").count() == 0
