"""Jobs of tasks that a worker does not know: neither failed, nor in anybody's way."""

from time import monotonic

import pytest

from pgqueue_django.models import Job
from pgqueue_django.registry import registry
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import add, finished, in_state

GONE = "tests.worker.handlers.gone"


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    """Look for jobs that others set aside as often as for others."""
    monkeypatch.setattr("pgqueue_django.worker.claimer._UNSERVED_INTERVAL", 0.1)


@pytest.fixture
def forget_task():
    """Return a function that makes this process not know a task."""
    known = dict(registry._tasks)
    yield registry._tasks.pop
    registry._tasks.update(known)


@pytest.mark.parametrize(
    "name", [GONE, "no.such.module.task", "not a name", "os.system"]
)
def test_prc_02_03_a_job_of_an_unknown_task_is_set_aside(start_worker, name):
    bad = factories.queued(name).pk
    good = [add(handlers.noop) for _ in range(10)]
    worker = start_worker()

    assert {finished(id_).state for id_ in good} == {"succeeded"}
    job = in_state(bad, "unserved")
    assert (job.attempts, job.errors, job.lease_token, job.worker) == (0, [], None, "")
    assert worker.stop() == 0
    assert factories.get(bad).state == "unserved"


def test_prc_03_a_worker_that_knows_the_task_takes_the_job(start_worker, forget_task):
    name = handlers.noop.task_name
    waiting = factories.queued_many(5, task=name)
    task = forget_task(name)
    old = start_worker()
    for id_ in waiting:
        in_state(id_, "unserved")
    assert old.stop() == 0

    registry._tasks[name] = task
    new = start_worker()

    for id_ in waiting:
        job = finished(id_)
        assert (job.state, job.attempts, job.errors) == ("succeeded", 1, [])
    assert new.stop() == 0


def test_prc_03_many_unknown_ones_ahead_slow_nobody(start_worker, heard):
    factories.queued_many(20_000, task=GONE, priority=50)
    good = [add(handlers.noop) for _ in range(10)]
    began = monotonic()
    start_worker()

    assert {finished(id_).state for id_ in good} == {"succeeded"}
    # A claim at a time would take 10,000 of them.
    assert monotonic() - began < 15
    wait_until(lambda: Job.objects.filter(state="unserved").count() == 20_000)
    assert Job.objects.filter(attempts__gt=1).count() == 0

    later = add(handlers.noop)
    assert finished(later).state == "succeeded"
    assert {said["task"] for said in heard.of("task_unknown")} == {GONE}


def test_a_worker_that_drains_ends_though_unserved_jobs_are_left(drain):
    bad = factories.queued(GONE).pk
    good = add(handlers.noop)

    assert drain() == 0

    assert factories.states([bad, good]) == ["unserved", "succeeded"]


def test_unknown_jobs_do_not_count_for_max_jobs(start_worker):
    factories.queued_many(10, task=GONE)
    good = factories.queued_many(3, task=handlers.noop.task_name)

    assert start_worker(max_jobs=2, threads=4).result() == 0

    assert sorted(factories.states(good)) == ["queued", "succeeded", "succeeded"]


def test_prc_02_modules_that_cannot_be_imported_are_named_and_stop_nothing(
    start_process, tmp_path
):
    for name, text in {
        "fails": "raise ValueError('at import')",
        "leaves": "import sys; sys.exit(7)",
    }.items():
        (tmp_path / f"tasks_that_{name}.py").write_text(text)
    good = add(handlers.where)
    unknown = factories.queued("tasks_that_fails.anything").pk
    modules = ["tasks_that_fails", "tasks_that_leaves", "tests.worker.handlers"]

    process = start_process(
        pgqueue={"TASK_MODULES": modules}, python_path=str(tmp_path)
    )

    assert finished(good).result[0] == process.pid
    in_state(unknown, "unserved")
    for text in ("tasks_that_fails", "at import", "tasks_that_leaves", "SystemExit"):
        assert text in process.log
    assert process.stop() == 0
