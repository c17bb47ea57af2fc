"""Hints by NOTIFY: heard at once, missed by nobody for long, and never needed."""

from time import monotonic

import pytest
from django.db import OperationalError

from pgqueue_django.db import WorkerSession
from pgqueue_django.managers.hints import hint
from pgqueue_django.models import Job
from pgqueue_django.notifications import CANCEL_CHANNEL, DUE_CHANNEL
from pgqueue_django.worker.listener import Listener
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import add, finished, pause, within

LISTENER = "pgqueue listener"

RARELY = {"poll_interval": 60, "lease": 30}
"""Options under which only a hint can bring a job in time."""

AT_ONCE = 3.0
"""Seconds: one at most is promised, a busy machine needs some more."""


@pytest.fixture
def impatient(monkeypatch):
    """Doubt a silent connection soon."""
    monkeypatch.setattr("pgqueue_django.worker.listener._SILENCE", 0.3)
    monkeypatch.setattr("pgqueue_django.worker.listener.ECHO", 0.3)
    monkeypatch.setattr("pgqueue_django.worker.listener._WAIT", 0.1)


def starts_at_once() -> None:
    began = monotonic()
    finished(add(handlers.noop))
    assert monotonic() - began < AT_ONCE


def test_a_job_starts_long_before_the_next_poll(start_worker):
    start_worker(**RARELY)
    finished(add(handlers.noop))
    for _ in range(5):
        starts_at_once()


def test_a_job_that_will_be_due_soon_is_not_overslept(start_worker):
    start_worker(**RARELY)
    finished(add(handlers.noop))
    id_ = add(handlers.noop, options={"delay": 0.4})
    job = finished(id_)
    assert (job.first_claimed_at - job.run_at).total_seconds() < AT_ONCE


def test_a_rare_look_for_jobs_oversleeps_none_that_becomes_due(start_worker, settings):
    settings.PGQUEUE = {**settings.PGQUEUE, "POLL_INTERVAL_SECONDS": 0.2}
    start_worker(**RARELY)
    finished(add(handlers.noop))
    # Later than producers announce.
    id_ = add(handlers.noop, options={"delay": 1})
    job = finished(id_)
    assert (job.first_claimed_at - job.run_at).total_seconds() < AT_ONCE


def test_con_10_the_listening_connection_is_ended(start_worker, proxy, terminate):
    start_worker(database="proxied", **RARELY)
    finished(add(handlers.noop))
    (link,) = wait_until(lambda: proxy.links(LISTENER))

    assert terminate(LISTENER) == 1
    wait_until(lambda: proxy.links(LISTENER) not in ([], [link]))

    starts_at_once()


def test_con_10_what_came_during_the_outage_is_found(start_worker, proxy):
    start_worker(database="proxied", **RARELY)
    finished(add(handlers.noop))
    proxy.refuse(LISTENER)
    wait_until(lambda: proxy.links(LISTENER))
    proxy.cut(LISTENER)
    wait_until(lambda: proxy.refusals >= 2)
    missed = add(handlers.noop)

    proxy.allow()

    assert finished(missed).state == "succeeded"


def test_con_10_all_connections_are_cut_at_once(start_worker, proxy):
    """As by a restart of the server."""
    start_worker(database="proxied", **RARELY)
    finished(add(handlers.noop))
    proxy.refuse(sqlstate="57P03")
    wait_until(lambda: proxy.links(LISTENER))
    proxy.cut()
    wait_until(lambda: proxy.refusals >= 3)
    proxy.allow()
    wait_until(lambda: proxy.links(LISTENER))

    starts_at_once()


def test_con_10_a_frozen_connection_is_found_out(start_worker, proxy, impatient, heard):
    running = start_worker(database="proxied", **RARELY)
    finished(add(handlers.noop))
    (link,) = wait_until(lambda: proxy.links(LISTENER))
    proxy.freeze(LISTENER)

    wait_until(lambda: [one for one in proxy.links(LISTENER) if one is not link], 15)

    starts_at_once()
    assert running.stop() == 0


def test_con_10_a_refused_reconnect_is_tried_again(start_worker, proxy):
    start_worker(database="proxied", **RARELY)
    finished(add(handlers.noop))
    wait_until(lambda: proxy.links(LISTENER))
    proxy.refuse(LISTENER)
    proxy.cut(LISTENER)
    wait_until(lambda: proxy.refusals >= 1)
    proxy.allow()
    wait_until(lambda: proxy.links(LISTENER))

    starts_at_once()


def test_con_11_without_a_listener_polling_goes_on(start_worker, proxy, heard):
    running = start_worker(database="proxied")
    finished(add(handlers.noop))
    proxy.refuse(LISTENER)
    wait_until(lambda: proxy.links(LISTENER))
    proxy.cut(LISTENER)

    away = within(2)
    while away():
        starts_at_once()

    # 0.1 s, then twice as long each time.
    assert 2 <= proxy.refusals <= 8
    assert {said["loop"] for said in heard.of("loop_failed")} == {"listener"}
    assert "listener" in running.worker.health()
    assert running.stop() == 0


def test_con_12_a_listener_holds_no_transaction_and_no_notifications(
    start_worker, connect, alias
):
    start_worker(**RARELY)
    finished(add(handlers.noop))
    other = connect()
    with other.transaction():
        for _ in range(20):
            other.execute(
                "SELECT pg_notify(%s, 'other ' || n) FROM generate_series(1, 500) n",
                [DUE_CHANNEL],
            )

    def usage() -> float:
        share: float = other.execute("SELECT pg_notification_queue_usage()").fetchall()[
            0
        ][0]
        return share

    wait_until(lambda: usage() == 0)
    (row,) = other.execute(
        "SELECT state, xact_start FROM pg_stat_activity"
        " WHERE datname = current_database() AND starts_with(application_name, %s)",
        [LISTENER],
    ).fetchall()
    assert row == ("idle", None)
    starts_at_once()


class Told:
    def __init__(self) -> None:
        self.due: list[str] = []
        self.soon = 0
        self.missed = 0
        self.cancelled: list[list[int]] = []

    def on_soon(self) -> None:
        self.soon += 1

    def on_missed(self) -> None:
        self.missed += 1


@pytest.fixture
def listening(new_session):
    """Return a listener that listens, and what it told."""
    told = Told()
    session = new_session()
    listener = Listener(
        session,
        told.due.append,
        told.on_soon,
        told.on_missed,
        told.cancelled.append,
    )
    listener.run_once()
    yield listener, told
    listener.close()


def test_a_silent_connection_must_hear_itself(impatient, listening, monkeypatch):
    listener, told = listening
    still = within(1.5)
    while still():
        listener.run_once()
    assert told.missed == 1

    # A pooler that hands statements to other connections would look like this.
    monkeypatch.setattr(WorkerSession, "notifications", lambda *_: [])
    with pytest.raises(OperationalError, match="does not hear itself"):
        wait_until(listener.run_once, 5)


def test_hints_name_their_queues(listening):
    listener, told = listening
    factories.queued(queue="a")
    factories.queued(queue="b")
    factories.queued(queue="c", delay=0.5)
    wait_until(lambda: listener.run_once() or (len(told.due) == 2 and told.soon == 1))

    assert sorted(told.due) == ["a", "b"]


def test_hints_name_what_was_cancelled_while_it_ran(listening, session):
    listener, told = listening
    running = sorted(attempt.id for attempt in factories.claimed_many(2))
    hint(session, CANCEL_CHANNEL, "; nonsense, 12345678901234567890")
    Job.objects.cancel(factories.queued().id)

    assert Job.objects.cancel_many(running) == set(running)

    wait_until(lambda: listener.run_once() or len(told.cancelled) > 1)
    assert told.cancelled[1:] == [running]


def test_a_listener_that_begins_anew_says_that_hints_may_be_missing(listening):
    listener, told = listening
    assert listener.hears
    listener.close()
    assert not listener.hears
    assert told.missed == 2, "looks are to be more frequent from now on"
    listener.run_once()
    assert told.missed == 3


def test_a_hint_for_another_queue_asks_nothing(start_worker, monkeypatch):
    start_worker(**RARELY)
    finished(add(handlers.noop))
    claims: list[str] = []
    rows = WorkerSession.rows

    def noted(self, statement, params):
        if "worker" in params and "token" in params:
            claims.append(params["queue"])
        return rows(self, statement, params)

    pause(0.3)
    monkeypatch.setattr(WorkerSession, "rows", noted)
    add(handlers.noop, options={"queue": "other"})
    pause(0.5)

    assert claims == []
