"""Connections that break, hang, are refused, or that handlers leave in a bad way."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper

from pgqueue_django.db import WorkerSession
from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import (
    WAIT,
    add,
    finished,
    in_state,
    pause,
)
from tests.worker.servers import migrate, settings_of

THROUGH_PROXY = {"sslmode": "disable", "gssencmode": "disable"}


def options(settings: str) -> dict[str, Any]:
    return {**connection.settings_dict["OPTIONS"], "options": settings}


@pytest.fixture
def default_changed(monkeypatch):
    """Return a function that sets up the handlers' connections otherwise."""

    def change(**changes: Any) -> None:
        changed = {**connections.settings["default"], **changes}
        changed["NAME"] = connection.settings_dict["NAME"]
        monkeypatch.setitem(connections.settings, "default", changed)

    return change


def test_con_01_all_connections_of_an_idle_worker_are_ended(start_process, terminate):
    process = start_process()
    finished(add(handlers.noop))

    assert terminate("pgqueue") >= 3
    began = monotonic()
    id_ = add(handlers.where)

    assert finished(id_).result[0] == process.pid
    # A poll and the backoff of each loop that has to do with it.
    assert monotonic() - began < 3
    assert process.log.count("WARNING") == 1
    assert process.stop() == 0


@pytest.mark.parametrize("reason", ["hang up", "57P03", "53300"])
def test_con_02_an_outage_ends_nothing(start_process, proxy, held_by, let_go, reason):
    # Long enough for the outage; a claim whose answer was cut off ends with its lease.
    process = start_process(
        "--lease=5", HOST="127.0.0.1", PORT=str(proxy.port), OPTIONS=THROUGH_PROXY
    )
    running = add(handlers.hold, str(let_go.folder))
    assert held_by() == process.pid

    proxy.refuse(sqlstate=None if reason == "hang up" else reason)
    proxy.cut()
    let_go()
    waiting = add(handlers.where)
    pause(1.5)
    lines = process.log.count("WARNING")
    attempts = proxy.refusals
    proxy.allow()

    # What ended meanwhile is recorded, and what came meanwhile is run.
    job = finished(running)
    assert (job.state, job.attempts) == ("succeeded", 1)
    assert finished(waiting).result[0] == process.pid
    assert lines <= 2
    assert attempts < 60
    assert process.stop() == 0


@pytest.mark.parametrize(
    "away", [{"HOST": "no-such-host.invalid"}, {"HOST": "127.0.0.1", "PORT": "1"}]
)
def test_con_02_a_worker_waits_for_a_database_that_is_away(start_process, away):
    process = start_process(until="trying again", **away)
    began = monotonic()

    assert process.stop() == 0

    assert monotonic() - began < 6
    assert process.log.count("\n") <= 2


def test_con_02_a_worker_that_waited_at_its_start_begins(start_process, proxy):
    proxy.refuse(sqlstate="57P03")
    id_ = add(handlers.where)
    process = start_process(
        until="trying again",
        HOST="127.0.0.1",
        PORT=str(proxy.port),
        OPTIONS=THROUGH_PROXY,
    )
    proxy.allow()

    assert finished(id_).result[0] == process.pid
    assert process.stop() == 0


def test_con_02_10_a_real_server_that_is_started_again(
    start_process, private_server, alias, held_by, let_go
):
    settings_dict = settings_of(private_server("start"))
    migrate(settings_dict)
    session = WorkerSession(alias("private", **settings_dict), name="test")
    private = Job.objects.on(session)
    process = start_process("--poll-interval=60", "--lease=30", **settings_dict)
    held = factories.spec(handlers.hold.task_name, args=[str(let_go.folder)])
    private.enqueue(held)
    assert held_by() == process.pid

    private_server("stop")
    let_go()
    process.wait_for("trying again")
    private_server("start")
    with pytest.raises(OperationalError):
        private.next_due()

    def rows() -> list[tuple[str, int]]:
        return session.rows("SELECT state, attempts FROM pgqueue_job", {})

    wait_until(lambda: rows() == [("succeeded", 1)], WAIT)
    assert "lease lost" not in process.log
    for _ in range(3):
        private.enqueue(factories.spec(handlers.where.task_name))
    wait_until(lambda: rows() == [("succeeded", 1)] * 4, 15)
    session.close()
    assert process.stop() == 0


def test_a_statement_that_hangs_is_cut(start_worker, proxy, heard):
    """Nothing says that the server is gone; the worker does not wait for ever."""
    running = start_worker(database="proxied", lease=1)
    finished(add(handlers.noop))
    assert proxy.freeze("pgqueue")

    id_ = add(handlers.noop)

    assert finished(id_).state == "succeeded"
    assert heard.count("loop_failed") >= 1
    assert running.stop() == 0


@pytest.mark.parametrize("health_checks", [True, False])
@pytest.mark.parametrize("max_age", [None, 0, 600])
@pytest.mark.parametrize("task", [handlers.count_jobs, handlers.count_jobs_async])
def test_con_03_a_handlers_connection_that_is_ended_between_jobs(
    start_worker, connect, default_changed, task, max_age, health_checks
):
    default_changed(CONN_MAX_AGE=max_age, CONN_HEALTH_CHECKS=health_checks)
    running = start_worker(threads=1)
    _, pid = finished(add(task)).result
    other = connect()
    assert other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid]).fetchone()

    jobs = [finished(add(task)) for _ in range(3)]

    assert [job.state for job in jobs] == ["succeeded"] * 3
    assert pid not in {job.result[1] for job in jobs}
    # From then on it is kept.
    assert len({job.result[1] for job in jobs}) == 1
    assert running.stop() == 0


def test_con_05_each_child_has_connections_of_its_own(start_process):
    ids = [add(handlers.all_aliases) for _ in range(12)]
    process = start_process(
        "--processes=1", "--max-jobs-per-child=3", "--threads=1", CONN_MAX_AGE=None
    )

    results = [tuple(finished(id_).result) for id_ in ids]

    assert {job.attempts for job in Job.objects.all()} == {1}
    # Three jobs in a child, each child with two backends that no other had.
    assert len(set(results)) == 4
    assert len({pid for result in results for pid in result}) == 4 * 3
    assert process.stop() == 0


def test_con_07_a_pool_is_used_again_and_its_connections_are_clean(
    start_worker, default_changed, settings
):
    settings.TIME_ZONE = "Asia/Kolkata"
    settings.USE_TZ = False
    default_changed(
        OPTIONS={
            **connection.settings_dict["OPTIONS"],
            "pool": {"min_size": 1, "max_size": 3},
        },
        CONN_MAX_AGE=0,
    )
    ids = factories.queued_many(100, task=handlers.session_state.task_name)
    start_worker(threads=4, drain=True, database=None)
    try:
        states = [finished(id_).result for id_ in ids]
    finally:
        pools: Any = DatabaseWrapper
        pools._connection_pools.pop("default").close()

    assert 1 <= len({state[0] for state in states}) <= 3
    assert {state[5] for state in states} == {"Asia/Kolkata"}


POISONS = [
    "error swallowed in atomic",
    "autocommit off",
    "atomic never left",
    "atomic never left, failed",
    "savepoint open",
    "begin by hand",
    "closed",
    "closed in atomic",
    "backend killed",
    "read only",
    "statement_timeout",
    "search_path",
    "role",
    "listen",
]
OPEN = {
    "autocommit off",
    "atomic never left",
    "atomic never left, failed",
    "savepoint open",
    "begin by hand",
    "closed in atomic",
}
FAILING = {"autocommit off", "atomic never left, failed", "backend killed"}


def test_the_end_of_a_worker_is_no_trouble(start_worker, heard, caplog):
    running = start_worker()
    finished(add(handlers.noop))

    assert running.stop() == 0

    assert heard.count("loop_failed") == 0
    assert not [record for record in caplog.records if record.levelno > 20]


def test_con_14_no_handler_spoils_the_connection_for_the_next(start_worker, heard):
    running = start_worker(threads=1)
    clean = finished(add(handlers.session_state)).result[1:]

    for kind in POISONS:
        left_open = heard.count("transaction_left_open")
        poisoned = finished(add(handlers.poison, kind))
        expected = "dead" if kind in FAILING else "succeeded"
        if kind != "error swallowed in atomic":
            assert (kind, poisoned.state) == (kind, expected)
        after = finished(add(handlers.session_state))
        assert (kind, after.state) == (kind, "succeeded"), after.errors
        assert (kind, after.result[1:]) == (kind, clean)
        # An open transaction is rolled back, and said to have been there.
        said = heard.count("transaction_left_open") - left_open
        assert (kind, said) == (kind, int(kind in OPEN))

    assert Job.objects.filter(priority=99).count() == 0
    assert running.stop() == 0


def test_con_14_a_session_that_is_kept_hears_nothing_and_holds_nothing(
    start_worker, connect
):
    running = start_worker(threads=1)
    finished(add(handlers.poison, "listen"))
    pid = finished(add(handlers.session_state)).result[0]

    other = connect()
    (row,) = other.execute(
        "SELECT state, xact_start FROM pg_stat_activity WHERE pid = %s", [pid]
    ).fetchall()
    assert row == ("idle", None)
    assert running.stop() == 0


@pytest.mark.parametrize(
    "setting",
    [
        "statement_timeout=300ms",
        "lock_timeout=100ms",
        "idle_session_timeout=200ms",
        "idle_in_transaction_session_timeout=100ms",
    ],
)
def test_con_16_a_role_with_timeouts_leaves_no_worker_half_alive(
    start_worker, alias, connect, setting
):
    strict = alias("strict", OPTIONS=options(f"-c {setting}"))
    running = start_worker(database=strict, lease=5)
    first = add(handlers.wait_at, "gate")
    assert handlers.gates["gate"].arrived.wait(WAIT)
    other = connect()
    with other.transaction():
        other.execute("LOCK TABLE pgqueue_job")
        handlers.gates["gate"].opened.set()
        pause(0.8)

    second = add(handlers.noop)

    # What succeeded is a success, however long it took to say so.
    assert finished(first).state == "succeeded"
    assert finished(second).state == "succeeded"
    assert running.stop() == 0


@contextmanager
def read_only_database(other) -> Iterator[None]:
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    alter = f"ALTER DATABASE {name}"
    other.execute(f"{alter} SET default_transaction_read_only = on")
    try:
        yield
    finally:
        other.execute("SET default_transaction_read_only = off")
        other.execute(f"{alter} RESET default_transaction_read_only")


def test_lea_13_a_server_that_turned_read_only_is_asked_again(
    start_worker, connect, terminate, heard
):
    id_ = add(handlers.wait_at, "gate")
    running = start_worker(lease=20)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    other = connect()
    with read_only_database(other):
        terminate("pgqueue")
        handlers.gates["gate"].opened.set()
        wait_until(lambda: heard.count("loop_failed") >= 3)
        pause(0.5)
        # Each loop waits longer each time.
        assert heard.count("loop_failed") < 40
        assert factories.get(id_).state == "running"
    terminate("pgqueue")

    job = finished(id_)
    assert (job.state, job.attempts) == ("succeeded", 1)
    assert running.stop() == 0


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_cnc_10_11_another_default_isolation_changes_nothing(
    start_worker, alias, heard, level
):
    escaped = level.replace(" ", "\\ ")
    strict = alias(
        "isolated", OPTIONS=options(f"-c default_transaction_isolation={escaped}")
    )
    ids = factories.queued_many(300, task=handlers.noop.task_name)
    pair = [
        start_worker(database=strict, drain=True, threads=4, lease=5) for _ in range(2)
    ]

    assert [running.result() for running in pair] == [0, 0]

    assert set(factories.states(ids)) == {"succeeded"}
    assert len(heard.recorded()) == 300
    assert heard.count("loop_failed") == heard.count("lease_lost") == 0


def test_a_broken_connection_of_the_reaper_is_no_end(start_worker, terminate):
    factories.queued(handlers.noop.task_name)
    factories.claim(worker="dead", lease=0.3)
    running = start_worker()
    terminate("pgqueue maintenance")
    factories.queued(handlers.noop.task_name)

    (first, second) = Job.objects.order_by("id")
    in_state(first.pk, "succeeded")
    in_state(second.pk, "succeeded")
    assert running.stop() == 0


def test_an_error_that_does_not_pass_ends_the_worker(start_worker, heard, monkeypatch):
    """Such as a column that is missing: waiting mends nothing."""
    from django.db import ProgrammingError

    def fail(*_: object, **__: object) -> None:
        raise ProgrammingError("no such column")

    monkeypatch.setattr(type(Job.objects), "next_expiry", fail)
    monkeypatch.setattr("pgqueue_django.worker.loop._HOPELESS", 3)
    running = start_worker()

    assert running.result() == 3
    assert [said["part"] for said in heard.of("worker_broken")] == ["reaper"]
