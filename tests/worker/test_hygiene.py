"""After its end nothing of a worker is left: no thread, no connection, no lease."""

import threading

import pytest

from pgqueue_django.models import Job
from pgqueue_django.worker.parts import Parts
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import WAIT, add, finished


def threads() -> list[str]:
    return sorted(
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("pgqueue-")
    )


@pytest.fixture
def gone(watcher, connect, transactional_db):
    """Return a function that checks that all is gone."""
    other = connect()

    def backends() -> int:
        rows = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend'"
        )
        count: int = rows.fetchall()[0][0]
        return count

    Job.objects.exists()
    before = backends()

    def check() -> None:
        wait_until(lambda: not threads())
        wait_until(lambda: not watcher.product_connections())
        # Those of handlers too, which bear no name of ours.
        wait_until(lambda: backends() <= before)
        assert not Job.objects.exclude(lease_token=None).exists()

    return check


def test_a_running_worker_has_one_thread_for_each_part(start_worker):
    start_worker(threads=2)
    finished(add(handlers.noop))
    assert threads() == [
        "pgqueue-claimer",
        "pgqueue-completer",
        "pgqueue-handler-0",
        "pgqueue-handler-1",
        "pgqueue-heartbeat",
        "pgqueue-listener",
        "pgqueue-maintenance",
        "pgqueue-presence",
    ]


def test_all_is_gone_after_stop(start_worker, gone):
    running = start_worker()
    for _ in range(5):
        finished(add(handlers.count_jobs))
    assert running.stop() == 0
    gone()


def test_the_handlers_connections_are_closed_with_their_threads(start_worker, connect):
    running = start_worker(threads=3)
    pids = {finished(add(handlers.session_state)).result[0] for _ in range(6)}
    assert running.stop() == 0
    other = connect()

    def alive() -> bool:
        rows = other.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", [list(pids)]
        )
        return bool(rows.fetchall())

    wait_until(lambda: not alive())


def test_all_is_gone_after_draining_with_failures(drain, gone):
    for kind in ("ValueError", "SystemExit(3)", "KeyboardInterrupt"):
        add(handlers.fail, kind)
        add(handlers.fail_async, kind)
    assert drain() == 0
    gone()


def test_all_is_gone_after_an_exception_in_the_middle(start_worker, gone, monkeypatch):
    id_ = add(handlers.wait_for_stop, "gate")

    def fail(_self: Parts) -> None:
        if handlers.gates["gate"].arrived.is_set():
            raise RuntimeError("in the middle")

    monkeypatch.setattr(Parts, "broken", fail)
    running = start_worker()

    with pytest.raises(RuntimeError, match="in the middle"):
        running.result()

    assert factories.get(id_).state == "succeeded"
    gone()


def test_all_is_gone_when_not_even_the_start_succeeds(start_worker, gone, monkeypatch):
    start = threading.Thread.start

    def fail(self: threading.Thread) -> None:
        if self.name == "pgqueue-maintenance":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", fail)
    running = start_worker()

    with pytest.raises(RuntimeError, match="can't start new thread"):
        running.result()
    gone()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_part_that_dies_ends_the_worker(start_worker, gone, monkeypatch, heard):
    def die(*_: object, **__: object) -> None:
        raise SystemExit(9)

    monkeypatch.setattr(type(Job.objects), "next_expiry", die)
    running = start_worker()

    assert running.result() == 3
    assert [said["part"] for said in heard.of("worker_broken")] == ["maintenance"]
    gone()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_handlers_thread_that_dies_ends_the_worker(
    start_worker, gone, monkeypatch, heard
):
    def die(*_: object) -> None:
        raise RuntimeError("the product's own mistake")

    monkeypatch.setattr("pgqueue_django.worker.executor.Executor.run", die)
    add(handlers.noop)
    running = start_worker(threads=2, shutdown_timeout=0.2)

    assert running.result() == 3
    assert [said["part"] for said in heard.of("worker_broken")] == ["pool"]
    gone()


def test_after_a_forced_end_a_handler_that_comes_back_changes_nothing(
    start_worker, gone
):
    id_ = add(handlers.wait_at, "gate")
    running = start_worker(shutdown_timeout=0.2, lease=30)
    assert handlers.gates["gate"].arrived.wait(WAIT)

    assert running.stop() == 1

    job = factories.get(id_)
    assert (job.state, job.attempts, job.lease_token) == ("queued", 0, None)
    handlers.gates["gate"].opened.set()
    assert handlers.gates["gate"].left.wait(WAIT)
    gone()
    assert factories.get(id_).state == "queued"


def test_a_worker_can_follow_another_in_one_process(start_worker, gone):
    for _ in range(5):
        running = start_worker()
        finished(add(handlers.noop))
        assert running.stop() == 0
    gone()
