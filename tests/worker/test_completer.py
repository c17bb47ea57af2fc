"""Outcomes reach the database: together, each once, and whatever happens."""

from threading import Thread
from time import monotonic

import pytest
from django.db import OperationalError

from pgqueue_django.db import WorkerSession
from pgqueue_django.failures import Failure
from pgqueue_django.models import Job
from pgqueue_django.outcomes import (
    Cancelled,
    Failed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from pgqueue_django.worker.completer import Completer
from pgqueue_django.worker.leases import Leases
from tests import factories
from tests.waiting import wait_until
from tests.worker.conftest import pause

FAILURE = Failure("tests.Broken", "it broke", "Traceback …")
OK = Succeeded('"done"')


class Made:
    """A completer, with what is around it."""

    def __init__(self, session, attempts, *, size=200, seconds=0.0):
        self.leases = Leases(30)
        self.leases.add(attempts, monotonic())
        self.waiting: list[tuple[str, float]] = []
        self.backlogs: list[int] = []
        self.completer = Completer(
            session,
            self.leases,
            identity=factories.WORKER,
            flush_size=size,
            flush_seconds=seconds,
            on_waiting=lambda *told: self.waiting.append(told),
            on_flushed=lambda: self.backlogs.append(self.completer.backlog),
        )

    def put(self, *entries):
        for attempt, outcome in entries:
            self.completer.put(attempt, outcome)

    def run(self):
        self.completer.run_once()


@pytest.fixture
def statements(monkeypatch):
    """Return the statements that workers' sessions run."""
    seen: list[str] = []
    rows = WorkerSession.rows

    def noted(self, statement, params):
        seen.append(statement)
        return rows(self, statement, params)

    monkeypatch.setattr(WorkerSession, "rows", noted)
    return seen


def test_who_waits_for_its_backlog_hears_of_each_batch(session):
    attempts = factories.claimed_many(5)
    made = Made(session, attempts, size=2)
    made.put(*((attempt, OK) for attempt in attempts))

    for _ in range(3):
        made.run()

    assert made.backlogs == [3, 1, 0]


def test_records_many_outcomes_in_one_statement(session, statements):
    attempts = factories.claimed_many(50)
    made = Made(session, attempts)
    made.put(*((attempt, OK) for attempt in attempts))
    assert made.completer.backlog == 50

    made.run()

    assert len(statements) == 1
    assert made.completer.backlog == len(made.leases) == 0
    assert set(factories.states()) == {"succeeded"}


def test_records_each_kind_of_outcome(session, heard):
    attempts = factories.claimed_many(7)
    outcomes = [
        OK,
        Retried(FAILURE, 0.0),
        Retried(FAILURE, 600.0),
        Failed(FAILURE),
        Snoozed(600.0),
        Cancelled(FAILURE),
        Released(),
    ]
    made = Made(session, attempts)
    made.put(*zip(attempts, outcomes, strict=True))

    made.run()

    assert factories.states([attempt.id for attempt in attempts]) == [
        "succeeded",
        "queued",
        "scheduled",
        "dead",
        "scheduled",
        "cancelled",
        "queued",
    ]
    assert len(heard.recorded()) == 7
    assert sorted(made.waiting) == [
        ("default", 0.0),
        ("default", 0.0),
        ("default", 600.0),
        ("default", 600.0),
    ]


def test_a_batch_is_no_larger_than_the_flush_size(session):
    attempts = factories.claimed_many(25)
    made = Made(session, attempts, size=10, seconds=1)
    made.put(*((attempt, OK) for attempt in attempts))

    backlogs = []
    for _ in range(3):
        made.run()
        backlogs.append(made.completer.backlog)

    assert backlogs == [15, 5, 0]


def test_an_outcome_waits_for_others_only_so_long(session):
    attempts = factories.claimed_many(2)
    made = Made(session, attempts, seconds=0.2)
    made.put((attempts[0], OK))

    began = monotonic()
    made.run()

    assert monotonic() - began >= 0.2
    assert made.completer.backlog == 0


def test_the_last_outcome_of_all_waits_for_nobody(session):
    attempts = factories.claimed_many(3)
    made = Made(session, attempts, seconds=20)
    made.put(*((attempt, OK) for attempt in attempts))

    began = monotonic()
    made.run()

    assert monotonic() - began < 10
    assert made.completer.backlog == 0


def test_an_interrupt_ends_the_wait(session):
    made = Made(session, [])
    thread = Thread(target=made.run, name="test")
    thread.start()
    made.completer.interrupt()
    thread.join(5)
    assert not thread.is_alive()


def test_a_row_that_somebody_has_locked_is_tried_until_it_is_free(session, connect):
    locked, free = factories.claimed_many(2)
    made = Made(session, [locked, free])
    other = connect()
    with other.transaction():
        other.execute("SELECT 1 FROM pgqueue_job WHERE id = %s FOR UPDATE", [locked.id])
        made.put((locked, OK), (free, OK))
        made.run()
        assert factories.states([locked.id, free.id]) == ["running", "succeeded"]
        assert made.completer.backlog == len(made.leases) == 1
        made.run()
        assert factories.get(locked.id).state == "running"

    made.run()

    assert factories.get(locked.id).state == "succeeded"
    assert made.completer.backlog == len(made.leases) == 0


def test_locked_rows_do_not_keep_others_out(session, connect):
    locked = factories.claimed_many(10)
    free = factories.claimed_many(5)
    made = Made(session, [*locked, *free], size=5)
    other = connect()
    with other.transaction():
        ids = [attempt.id for attempt in locked]
        other.execute("SELECT 1 FROM pgqueue_job WHERE id = ANY(%s) FOR UPDATE", [ids])
        made.put(*((attempt, OK) for attempt in [*locked, *free]))
        for _ in range(4):
            made.run()
        assert set(factories.states([a.id for a in free])) == {"succeeded"}
    made.run()
    assert made.completer.backlog == 0


def test_a_lost_lease_is_said_once_and_the_others_are_recorded(session, heard):
    lost, kept = factories.claimed_many(2)
    again = factories.claimed_again(lost)
    made = Made(session, [lost, kept])
    made.put((lost, OK), (kept, OK))

    made.run()

    assert factories.states([lost.id, kept.id]) == ["running", "succeeded"]
    assert str(factories.get(lost.id).lease_token) == again.token
    assert [said["attempt"] for said in heard.of("lease_lost")] == [lost]
    assert made.completer.backlog == len(made.leases) == 0


def test_an_attempt_that_is_known_to_be_lost_is_not_even_tried(
    session, statements, heard
):
    attempt = factories.claimed()
    made = Made(session, [attempt])
    made.put((attempt, OK))
    made.leases.lose([attempt])

    made.run()

    assert statements == []
    assert (made.completer.backlog, heard.count("lease_lost")) == (0, 0)


def test_of_two_outcomes_of_an_attempt_the_success_counts(session, heard):
    """As when a job ends in the moment in which it is released."""
    attempt = factories.claimed()
    made = Made(session, [attempt])
    made.put((attempt, Released()), (attempt, OK), (attempt, Released()))

    made.run()

    assert factories.get(attempt.id).state == "succeeded"
    assert (len(heard.recorded()), heard.count("lease_lost")) == (1, 0)
    assert made.completer.backlog == 0


# What no check of the executor lets through.
NO_JSON = Succeeded('{"not": json')


@pytest.mark.parametrize("position", [0, 5, 9])
def test_only_the_bad_one_of_a_batch_suffers(session, heard, position):
    attempts = factories.claimed_many(10)
    made = Made(session, attempts)
    entries = [(attempt, OK) for attempt in attempts]
    entries[position] = (attempts[position], NO_JSON)
    made.put(*entries)

    made.run()
    made.run()

    bad = factories.get(attempts[position].id)
    assert bad.state == "dead"
    assert "json" in bad.errors[0]["message"]
    assert factories.states().count("succeeded") == 9
    assert len(heard.recorded()) == 10
    assert heard.count("lease_lost") == 0
    assert made.completer.backlog == len(made.leases) == 0


def test_a_bad_one_in_one_queue_leaves_others_recorded_once(session, heard):
    good = factories.claimed_many(3, queue="a")
    (bad,) = factories.claimed_many(1, queue="b")
    made = Made(session, [*good, bad])
    made.put(*((attempt, OK) for attempt in good), (bad, NO_JSON))

    made.run()
    made.run()

    assert factories.states() == ["succeeded"] * 3 + ["dead"]
    assert heard.count("lease_lost") == 0


def test_an_outcome_that_is_refused_in_any_form_is_dropped(session, heard):
    class NoJson(Failure):
        def as_json(self) -> str:
            return "{no"

    attempt, other = factories.claimed_many(2)
    made = Made(session, [attempt, other])
    made.put((attempt, Failed(NoJson("a", "b", "c"))), (other, Failed(FAILURE)))

    made.run()

    assert [said["attempt"] for said in heard.of("outcome_refused")] == [attempt]
    assert factories.states([attempt.id, other.id]) == ["running", "dead"]
    assert made.completer.backlog == len(made.leases) == 0


@pytest.mark.parametrize(
    "outcome",
    [
        OK,
        Retried(FAILURE, 0.0),
        Retried(FAILURE, 600.0),
        Failed(FAILURE),
        Cancelled(FAILURE),
        Snoozed(600.0),
        Released(),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_a_connection_that_breaks_between_commit_and_answer_loses_nothing(
    new_session, proxy, heard, outcome
):
    session = WorkerSession("proxied", name="pgqueue test completer")
    attempts = factories.claimed_many(3)
    made = Made(session, attempts)
    session.rows("SELECT 1", {})
    (link,) = proxy.mute("pgqueue test completer")
    made.put(*((attempt, outcome) for attempt in attempts))
    thread = Thread(target=pytest.raises, args=(OperationalError, made.run))
    thread.start()
    wait_until(lambda: link.swallowed and "running" not in factories.states())
    proxy.cut("pgqueue test completer")
    thread.join(10)
    assert made.completer.backlog == 3

    made.run()

    assert made.completer.backlog == len(made.leases) == 0
    assert heard.count("lease_lost") == 0
    assert [outcome for _, outcome in heard.recorded()] == [outcome] * 3
    session.close()


def test_after_a_lost_connection_a_lease_that_is_lost_is_said_to_be(
    session, heard, monkeypatch
):
    attempt = factories.claimed()
    made = Made(session, [attempt])
    made.put((attempt, OK))
    break_once(monkeypatch)
    with pytest.raises(OperationalError):
        made.run()
    factories.claimed_again(attempt)

    made.run()

    assert [said["attempt"] for said in heard.of("lease_lost")] == [attempt]
    assert len(heard.recorded()) == 0
    assert made.completer.backlog == 0


def test_after_a_lost_connection_the_batch_is_tried_at_once(session, monkeypatch):
    attempt = factories.claimed()
    made = Made(session, [attempt])
    made.put((attempt, OK))
    break_once(monkeypatch)
    with pytest.raises(OperationalError):
        made.run()

    began = monotonic()
    made.run()

    assert monotonic() - began < 0.9
    assert factories.get(attempt.id).state == "succeeded"


def break_once(monkeypatch) -> None:
    rows = WorkerSession.rows

    def broken(self, statement, params):
        monkeypatch.setattr(WorkerSession, "rows", rows)
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(WorkerSession, "rows", broken)


@pytest.mark.parametrize(
    "setting", ["lock_timeout", "statement_timeout", "deadlock_timeout"]
)
def test_con_16_a_lock_or_a_timeout_makes_no_success_a_failure(
    new_session, connect, setting
):
    attempts = factories.claimed_many(3)
    session = new_session()
    if setting != "deadlock_timeout":
        session.rows(f"SET {setting} = '50ms'", {})
    made = Made(session, attempts)
    made.put(*((attempt, OK) for attempt in attempts))
    other = connect()
    thread = Thread(target=made.run, name="test")
    with other.transaction():
        other.execute("LOCK TABLE pgqueue_job")
        if setting == "deadlock_timeout":
            thread.start()
            pause(0.2)
        else:
            with pytest.raises(OperationalError):
                made.run()
        assert made.completer.backlog == 3
    if thread.ident:
        thread.join(10)
    else:
        made.run()

    assert factories.states() == ["succeeded"] * 3
    assert made.completer.backlog == 0


def test_a_receiver_that_fails_loses_no_outcome(session, caplog):
    from pgqueue_django import signals

    def receive(**_: object) -> None:
        raise ValueError("from a receiver")

    attempts = factories.claimed_many(3)
    made = Made(session, attempts)
    signals.attempts_recorded.connect(receive)
    try:
        made.put(*((attempt, OK) for attempt in attempts))
        made.run()
    finally:
        signals.attempts_recorded.disconnect(receive)

    assert made.completer.backlog == 0
    assert set(factories.states()) == {"succeeded"}
    assert Job.objects.filter(state="running").count() == 0
