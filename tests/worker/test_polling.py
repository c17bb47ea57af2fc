"""Without NOTIFY and prepared statements, as behind a transaction pooler."""

import threading

import pytest
from django.db import connection

from pgqueue_django.db import WorkerSession
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import add, finished, pause, within


@pytest.fixture(autouse=True)
def behind_a_pooler(settings, fast_settings):
    settings.PGQUEUE = {
        **settings.PGQUEUE,
        "NOTIFY": False,
        "PREPARED_STATEMENTS": False,
    }


def test_a_job_is_found_by_the_next_look(start_worker):
    running = start_worker()
    ids = [add(handlers.noop) for _ in range(5)]

    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    assert running.stop() == 0


def test_a_job_that_becomes_due_is_found_by_the_next_look(start_worker):
    start_worker()
    id_ = add(handlers.noop, options={"delay": 0.3})
    assert finished(id_).state == "succeeded"


def test_there_is_no_listener_and_no_hint(start_worker, connect):
    listener = connect()
    listener.execute("LISTEN pgqueue_due")
    running = start_worker()
    add(handlers.fail_until_last)
    finished(add(handlers.noop))

    assert not [t for t in threading.enumerate() if t.name == "pgqueue-listener"]
    assert "listener" not in running.worker.health()
    assert list(listener.notifies(timeout=0.2)) == []
    assert running.stop() == 0


def test_nothing_is_prepared_on_the_server(new_session):
    session: WorkerSession = new_session(prepare=False)
    for _ in range(10):
        session.rows("SELECT %(n)s::int", {"n": 1})
    assert session.rows("SELECT count(*) FROM pg_prepared_statements", {}) == [(0,)]


def test_the_worker_retries_without_a_hint(start_worker):
    running = start_worker(poll_interval=60)
    id_ = add(handlers.fail_until_last)
    # The first look may be over; a stranger's job waits for the next one.
    if factories.get(id_).attempts or not _claimed_soon(id_):
        assert running.stop() == 0
        return
    assert finished(id_).result == "at attempt 3"
    assert running.stop() == 0


def _claimed_soon(id_: int) -> bool:
    still = within(0.5)
    return wait_until(lambda: factories.get(id_).attempts or not still()) is not True


@pytest.mark.parametrize(
    ("notify", "most"),
    [
        # In 2 s: up to 6 looks at two queues, as many for what is due, and some more.
        pytest.param(False, 24, id="polling"),
        pytest.param(True, 8, id="hearing"),
    ],
)
def test_an_idle_worker_asks_seldom(start_worker, settings, monkeypatch, notify, most):
    settings.PGQUEUE = {"NOTIFY": notify}
    running = start_worker("a,b", poll_interval=0.5)
    pause(1)
    seen: list[str] = []
    rows = WorkerSession.rows

    def noted(self, statement, params):
        seen.append(statement)
        return rows(self, statement, params)

    monkeypatch.setattr(WorkerSession, "rows", noted)
    pause(2)

    assert len(seen) <= most
    assert running.stop() == 0
    assert connection.vendor == "postgresql"
