"""What is written of a job that is another's by now: nothing."""

import os
import signal
from random import Random

import pytest

from pgqueue_django.attempts import Write
from pgqueue_django.models import Job
from tests import factories
from tests.threads import together
from tests.waiting import wait_until
from tests.worker import handlers, rough
from tests.worker.conftest import WAIT, add, finished, in_state

RESULT = '"from the first"'
FAILURE = factories.FAILURE


def test_lea_01_of_an_ack_and_a_reaper_exactly_one_wins(new_session):
    reaper, acker = Job.objects.on(new_session()), Job.objects.on(new_session())
    random = Random(1)
    outcomes = set()
    attempts = factories.claimed_many(200)
    factories.expire(*attempts)

    for attempt in attempts:
        first_reap = random.random() < 0.5

        def act(reap: bool, attempt=attempt) -> bool:
            if not reap:
                return acker.ack(attempt, RESULT)
            return attempt.id in {job.id for job in reaper.reap()}

        reap, ack = together(act, [True, False] if first_reap else [False, True])[
            :: 1 if first_reap else -1
        ]
        assert not (reap and ack)
        outcomes.add(ack)

    for job in Job.objects.all():
        if job.state == "succeeded":
            assert (job.result, job.errors) == ("from the first", [])
        else:
            assert (job.state, len(job.errors)) == ("queued", 1)
    assert Job.objects.filter(state="running").count() == 0


def test_lea_16_a_holder_of_long_ago_writes_nothing(session):
    jobs = Job.objects.on(session)
    old = factories.claimed()
    new = factories.claimed_again(old)
    assert jobs.ack(new, '"from the second"')

    assert not jobs.retry(old, FAILURE)
    assert not jobs.ack(old, RESULT)
    assert not jobs.fail(old, FAILURE)
    assert not jobs.snooze(old, 0)
    assert not jobs.release(old)
    assert not jobs.renew(old, lease=900)
    assert not jobs.cancel_held(old, FAILURE)

    job = factories.get(old.id)
    assert (job.state, job.result) == ("succeeded", "from the second")
    assert [error["exception"].rpartition(".")[2] for error in job.errors] == [
        "LeaseExpired"
    ]


def test_lea_16_while_the_second_holder_runs_the_first_changes_nothing(session):
    jobs = Job.objects.on(session)
    old = factories.claimed()
    new = factories.claimed_again(old)
    before = Job.objects.filter(pk=old.id).values().get()

    for write in (jobs.ack_many, jobs.fail_many, jobs.retry_many, jobs.release_many):
        assert write([Write(old, 0.0, FAILURE)]).lost == [old]

    assert Job.objects.filter(pk=old.id).values().get() == before
    assert jobs.ack(new)


def test_lea_16_no_signal_tells_of_an_outcome_that_was_refused(start_worker, heard):
    id_ = add(handlers.wait_at, "gate")
    running = start_worker(lease=30, threads=1)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    factories.tick(id_, lease_expires_at=-1)
    in_state(id_, "queued")

    handlers.gates["gate"].opened.set()
    job = finished(id_)

    # The one thread is free again only after the first attempt has been refused.
    assert (job.state, job.attempts) == ("succeeded", 2)
    assert running.stop() == 0
    assert [attempt.number for attempt, _ in heard.recorded()] == [2]
    assert [said["attempt"].number for said in heard.of("lease_lost")] == [1]


def test_lea_07_a_job_that_this_worker_lost_and_took_again_is_acked_once(
    start_worker, heard
):
    """Two attempts of one job run in one process, and end together."""
    id_ = add(handlers.wait_at, "gate")
    running = start_worker(lease=30, threads=2)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    handlers.gates["gate"].arrived.clear()
    factories.tick(id_, lease_expires_at=-1)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    assert factories.get(id_).attempts == 2

    handlers.gates["gate"].opened.set()

    assert finished(id_).attempts == 2
    assert running.stop() == 0
    assert [attempt.number for attempt, _ in heard.recorded()] == [2]
    assert [said["attempt"].number for said in heard.of("lease_lost")] == [1]


@pytest.mark.parametrize("flags", [[], ["--processes=1"]], ids=["worker", "child"])
def test_lea_07_a_handler_that_keeps_pythons_lock_loses_the_lease(
    start_process, held_by, let_go, flags
):
    id_ = add(rough.hog, str(let_go.folder), 8.0)
    first = start_process("--lease=1", *flags)
    holder = held_by()

    second = start_process("--lease=1")
    job = finished(id_)

    assert (job.attempts, job.result) == (2, f"done by {second.pid}")
    first.wait_for("lease lost")
    assert first.stop() == 0
    assert first.log.count("lease lost") == 1
    after = factories.get(id_)
    assert (after.result, after.finished_at) == (job.result, job.finished_at)
    assert second.stop() == 0
    assert holder != second.pid


def test_lea_07_in_a_subprocess_of_the_handler_it_keeps_the_lease(start_process):
    id_ = add(rough.hog_a_process_of_its_own, 3.0)
    process = start_process("--lease=1")

    assert finished(id_).attempts == 1
    assert factories.get(id_).state == "succeeded"
    assert process.stop() == 0
    assert "lease lost" not in process.log


def test_lea_14_a_handler_is_told_that_its_last_attempt_is_lost(start_worker, heard):
    """The key is still the dead job's: it keeps rows apart, not what runs."""
    options = {"idempotency_key": "K", "max_attempts": 1}
    id_ = add(handlers.wait_for_stop, "gate", options=options)
    running = start_worker(lease=1.5)
    gate = handlers.gates["gate"]
    assert gate.arrived.wait(WAIT)

    factories.tick(id_, lease_expires_at=-1)
    lost = in_state(id_, "dead")
    assert add(handlers.wait_for_stop, "gate", options=options) == id_

    # The next renewal finds it out, and the handler's own result comes too late.
    assert gate.told_to_stop.wait(WAIT)
    assert running.stop() == 0
    after = factories.get(id_)
    assert (after.state, after.result, after.attempts) == ("dead", None, 1)
    assert after.finished_at == lost.finished_at
    assert heard.recorded() == []
    assert [said["attempt"].id for said in heard.of("lease_lost")] == [id_]


def test_lea_08_workers_of_one_name_are_told_apart(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder))
    first = start_process("--name=w1", "--lease=1")
    assert held_by() == first.pid
    owner = factories.get(id_).worker
    first.process.kill()

    # The new one begins to work at once; what is not its own it leaves to the lease.
    second = start_process("--name=w1", "--lease=1")
    assert held_by(besides=first.pid) == second.pid
    job = factories.get(id_)
    assert (job.attempts, job.state) == (2, "running")
    assert job.worker != owner
    assert owner.startswith("w1-")
    assert job.worker.startswith("w1-")

    third = start_process("--name=w1", "--lease=1")
    let_go()
    assert finished(id_).result == f"done by {second.pid}"
    assert (second.stop(), third.stop()) == (0, 0)


def test_a_stopped_worker_that_goes_on_after_its_lease_writes_nothing(
    start_process, held_by, let_go
):
    id_ = add(handlers.hold, str(let_go.folder))
    first = start_process("--lease=1")
    assert held_by() == first.pid
    os.kill(first.pid, signal.SIGSTOP)
    try:
        second = start_process("--lease=1")
        assert held_by(besides=first.pid) == second.pid
        assert factories.get(id_).attempts == 2
        let_go()
        done = finished(id_)
        assert done.result == f"done by {second.pid}"
    finally:
        os.kill(first.pid, signal.SIGCONT)

    # Its handler ends now, and its outcome is refused.
    first.wait_for("lease lost")
    assert first.stop() == 0
    after = factories.get(id_)
    assert (after.result, after.attempts) == (f"done by {second.pid}", 2)
    assert after.finished_at == done.finished_at
    assert [error["exception"].rpartition(".")[2] for error in after.errors] == [
        "LeaseExpired"
    ]
    assert first.log.count("lease lost") == 1
    assert second.stop() == 0


def test_a_job_that_waited_too_long_for_its_thread_is_given_back(
    start_worker, monkeypatch, heard
):
    """A process that was stopped between claim and start does not start it."""
    monkeypatch.setattr("pgqueue_django.worker.parts.monotonic", lambda: 1e12)
    id_ = add(handlers.echo, "x")
    running = start_worker(lease=30)
    wait_until(lambda: len(heard.recorded()) >= 1)
    monkeypatch.undo()

    assert finished(id_).attempts == 1
    assert running.stop() == 0
    assert handlers.calls == ["x"]
    assert type(heard.recorded()[0][1]).__name__ == "Released"


@pytest.mark.parametrize("state", ["cancelled", "deleted"])
def test_a_job_that_is_gone_meanwhile_is_a_lost_lease(start_worker, heard, state):
    id_ = add(handlers.wait_at, "gate")
    running = start_worker(lease=30)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    if state == "deleted":
        Job.objects.filter(pk=id_).delete()
    else:
        assert Job.objects.cancel(id_)
    handlers.gates["gate"].opened.set()

    good = add(handlers.noop)
    in_state(good, "succeeded")
    assert running.stop() == 0
    assert [said["attempt"].id for said in heard.of("lease_lost")] == [id_]
