"""Leases are kept while jobs run, and given up when they cannot be."""

import threading
from threading import Event, Thread

import pytest

from pgqueue_django.attempts import Attempt, Write
from pgqueue_django.models import Job
from pgqueue_django.worker.heartbeat import Heartbeat
from pgqueue_django.worker.leases import Lease, Leases
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import (
    WAIT,
    add,
    finished,
    in_state,
    pause,
    unclaimed_attempt,
    within,
)


def test_a_job_keeps_its_lease_for_as_long_as_it_runs(start_worker, heard):
    id_ = add(handlers.wait_at, "gate")
    running = start_worker(lease=1.2)
    assert handlers.gates["gate"].arrived.wait(WAIT)

    # Two leases long, a reaper that looks every 0.1 s finds nothing to take.
    pause(2.5)

    job = factories.get(id_)
    assert (job.state, job.attempts, job.worker) == ("running", 1, running.identity)
    handlers.gates["gate"].opened.set()
    assert finished(id_).attempts == 1
    assert heard.count("lease_lost") == heard.count("lease_expired") == 0


def test_a_short_job_is_never_renewed(drain, monkeypatch):
    renewals: list[int] = []
    renew_many = type(Job.objects).renew_many

    def noted(self, writes, **rest):
        renewals.append(1)
        return renew_many(self, writes, **rest)

    monkeypatch.setattr(type(Job.objects), "renew_many", noted)
    factories.queued_many(200, task=handlers.noop.task_name)

    assert drain(lease=30) == 0

    assert renewals == []


def test_lea_15_each_claim_begins_a_lease_of_full_length(start_worker):
    id_ = add(handlers.fail_and_wait)
    first = start_worker(lease=30)
    in_state(id_, "scheduled")
    assert first.stop() == 0

    factories.tick(id_, claimed_at=-600, first_claimed_at=-600, run_at=-1)
    Job.objects.promote()
    (attempt,) = factories.claim(lease=30)

    assert Job.objects.reap() == []
    assert attempt.number == 2
    assert 29 < factories.seconds_from_now(id_, "lease_expires_at") <= 30


def beating(
    session, *attempts: Attempt, lease: float = 30.0
) -> tuple[Heartbeat, Leases]:
    """Return a heartbeat to which all leases are old at once."""
    leases, cancelled = Leases(lease), list[Attempt]()
    leases.add(attempts, since=-1e9)
    return Heartbeat(session, leases, lease, 0.1, cancelled.append), leases


def held(leases: Leases, attempt: Attempt) -> Lease:
    lease = leases.find(attempt)
    assert lease is not None
    return lease


def test_renews_all_leases_of_a_process_together(session):
    attempts = factories.claimed_many(5) + factories.claimed_many(5, queue="other")
    factories.expire(*attempts)
    heartbeat, leases = beating(session, *attempts)

    heartbeat.run_once()

    assert len(leases) == 10
    assert leases.older_than(1) == []
    for attempt in attempts:
        assert 29 < factories.seconds_from_now(attempt.id, "lease_expires_at") <= 30


def test_a_row_that_somebody_has_locked_is_tried_again_soon(session, connect):
    attempt = factories.claimed()
    heartbeat, leases = beating(session, attempt)
    other = connect()
    with other.transaction():
        other.execute("SELECT 1 FROM pgqueue_job FOR UPDATE")
        assert heartbeat.run_once() <= 0.2
        assert leases.older_than(1) == [attempt]

    heartbeat.run_once()

    assert leases.older_than(1) == []


def test_a_lost_lease_is_told_to_its_handler_once(session, heard):
    kept, lost = factories.claimed(), factories.claimed()
    heartbeat, leases = beating(session, kept, lost)
    told = held(leases, lost).should_stop
    factories.claimed_again(lost)

    heartbeat.run_once()
    heartbeat.run_once()

    assert told.is_set()
    assert leases.all() == [kept]
    assert [said["attempt"] for said in heard.of("lease_lost")] == [lost]


def test_a_lease_that_may_have_an_outcome_is_left_to_the_completer(session, heard):
    attempt = factories.claimed()
    heartbeat, leases = beating(session, attempt)
    assert Job.objects.ack(attempt)
    leases.doubt([attempt])

    heartbeat.run_once()

    assert leases.all() == [attempt]
    assert heard.count("lease_lost") == 0


def test_lea_03_without_a_heartbeat_the_worker_ends(start_worker, proxy, heard):
    id_ = add(handlers.wait_for_stop, "gate")
    running = start_worker(lease=0.6, database="proxied")
    assert handlers.gates["gate"].arrived.wait(WAIT)

    proxy.refuse("pgqueue heartbeat")
    proxy.cut("pgqueue heartbeat")

    # The handler hears of it, nothing more is claimed, and the exit code says it.
    assert handlers.gates["gate"].told_to_stop.wait(WAIT)
    assert running.result() == 3
    assert [said["part"] for said in heard.of("worker_broken")] == ["heartbeat"]
    assert heard.count("lease_lost") >= 1
    assert factories.get(id_).state in ("succeeded", "queued", "scheduled", "running")


def test_lea_03_claims_nothing_while_its_heartbeat_fails(start_worker, proxy):
    add(handlers.wait_at, "gate")
    running = start_worker(lease=3, database="proxied", threads=2)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    proxy.refuse("pgqueue heartbeat")
    proxy.cut("pgqueue heartbeat")
    wait_until(lambda: running.worker._parts._heartbeat_loop.recovery.failing_since, 20)

    waiting = add(handlers.noop)
    pause(0.5)
    assert factories.get(waiting).state == "queued"

    proxy.allow()
    assert finished(waiting).state == "succeeded"
    handlers.gates["gate"].opened.set()
    assert running.stop() == 0


def test_lea_03_terminated_each_moment_it_still_keeps_the_lease(
    start_worker, terminate, heard
):
    id_ = add(handlers.wait_at, "gate")
    start_worker(lease=2)
    assert handlers.gates["gate"].arrived.wait(WAIT)

    still = within(3)
    while still():
        terminate("pgqueue heartbeat")
        pause(0.3)
    handlers.gates["gate"].opened.set()

    assert finished(id_).attempts == 1
    assert heard.count("lease_lost") == 0


def test_lea_17_beats_go_on_while_all_threads_are_busy(start_worker, heard):
    id_ = add(handlers.wait_at, "gate")
    start_worker(lease=3)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    over = Event()

    def spin() -> None:
        while not over.is_set():
            sum(range(1_000))

    spinners = [Thread(target=spin, name=f"test spinner {n}") for n in range(8)]
    for spinner in spinners:
        spinner.start()
    try:
        least = 3.0
        still = within(4)
        while still():
            least = min(least, factories.seconds_from_now(id_, "lease_expires_at"))
    finally:
        over.set()
        for spinner in spinners:
            spinner.join()

    # The gap between two beats is what is gone of the lease when the next one comes.
    assert 3.0 - least < 3.0 * 0.8
    assert heard.count("lease_lost") == 0
    handlers.gates["gate"].opened.set()
    assert finished(id_).attempts == 1


def test_lea_17_a_silent_heartbeat_is_noticed_by_the_worker_itself(
    start_worker, monkeypatch, heard
):
    pause = Event()
    renew_many = type(Job.objects).renew_many

    def paused(self, writes, **rest):
        if threading.current_thread().name == "pgqueue-heartbeat":
            pause.wait(WAIT)
        return renew_many(self, writes, **rest)

    monkeypatch.setattr(type(Job.objects), "renew_many", paused)
    id_ = add(handlers.wait_for_stop, "gate")
    running = start_worker(lease=0.6, poll_interval=60)
    assert handlers.gates["gate"].arrived.wait(WAIT)

    assert handlers.gates["gate"].told_to_stop.wait(WAIT)
    pause.set()

    said = wait_until(lambda: heard.of("lease_lost"))
    assert said[0]["attempt"].id == id_
    assert running.stop() == 0


def test_a_lease_is_not_begun_anew_by_a_write_of_the_holder_before(session):
    attempt = factories.claimed()
    again = factories.claimed_again(attempt)

    written = Job.objects.on(session).renew_many([Write(attempt)], lease=900)

    assert written.lost == [attempt]
    assert factories.seconds_from_now(again.id, "lease_expires_at") <= factories.LEASE


@pytest.mark.parametrize("given_up", [False, True])
def test_leases_tell_of_each_loss_once(given_up):
    leases = Leases(1.0)
    attempt = unclaimed_attempt()
    leases.add([attempt], since=-10)
    if given_up:
        assert leases.give_up_overdue() == [attempt]

    assert leases.lose([attempt]) == ([] if given_up else [attempt])
    assert leases.lose([attempt]) == []
    assert leases.give_up_overdue() == []


def test_a_job_that_this_process_claims_again_is_lost_to_the_first_claim():
    leases = Leases(1.0)
    first, second = unclaimed_attempt(), unclaimed_attempt(number=2)
    leases.add([first], since=1e12)
    told = held(leases, first).should_stop
    leases.add([second], since=1e12)

    assert told.is_set()
    assert leases.all() == [second]
    assert leases.give_up_overdue() == [first]
    assert leases.give_up_overdue() == []
