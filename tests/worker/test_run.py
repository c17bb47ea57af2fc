"""Jobs run, in order, and what they return is kept."""

from threading import Thread, current_thread

import pytest
from django.db import transaction

from pgqueue_django import Worker
from pgqueue_django.models import Job
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import FAST, add, finished, in_state, pause


def test_runs_a_job_and_stores_its_result(drain):
    id_ = add(handlers.echo, 1, "ż", key=[True, None])

    assert drain() == 0

    job = factories.get(id_)
    assert (job.state, job.result) == ("succeeded", [[1, "ż"], {"key": [True, None]}])
    assert (job.attempts, job.errors, job.lease_token) == (1, [], None)
    assert job.enqueued_at <= job.first_claimed_at <= job.finished_at


def test_runs_async_handlers(drain):
    ids = [add(handlers.echo_async, number) for number in range(5)]

    assert drain() == 0

    assert [factories.get(id_).result for id_ in ids] == [[[n], {}] for n in range(5)]


def test_gives_the_context_to_handlers_that_take_it(drain):
    id_ = add(handlers.describe_context, "word", options={"max_attempts": 7})
    async_id = add(handlers.describe_context_async)

    assert drain() == 0

    assert factories.get(id_).result == ["word", 1, 7, id_, str(id_), False, False]
    assert factories.get(async_id).result == [1, async_id]


def test_runs_jobs_by_priority_and_then_in_order(drain):
    for word, priority in [("b", 0), ("c", 0), ("a", 50), ("e", -50), ("d", 0)]:
        add(handlers.echo, word, options={"priority": priority})

    assert drain(threads=1) == 0

    assert handlers.calls == ["a", "b", "c", "d", "e"]


def test_serves_queues_in_strict_order(drain):
    for queue in ("second", "first", "third"):
        for _ in range(3):
            add(handlers.echo, queue, options={"queue": queue})

    assert drain("first,second,third", threads=1) == 0

    assert handlers.calls == ["first"] * 3 + ["second"] * 3 + ["third"] * 3


def test_leaves_other_queues_alone(drain):
    id_ = add(handlers.noop, options={"queue": "other"})

    assert drain("default") == 0

    assert factories.get(id_).state == "queued"


def test_serves_queues_by_weight_and_starves_none(drain):
    for queue in ("often", "seldom"):
        factories.queued_many(
            150, task=handlers.echo.task_name, queue=queue, args=[queue]
        )

    assert drain(["often=9", "seldom=1"], threads=1) == 0

    first = handlers.calls[:100]
    assert first.count("often") > first.count("seldom") > 0
    assert len(handlers.calls) == 300


def test_never_runs_more_handlers_at_once_than_it_has_threads(start_worker):
    ids = [add(handlers.wait_at, f"gate {number}") for number in range(5)]
    start_worker(threads=2)
    wait_until(lambda: _arrived() == 2)

    assert factories.states(ids).count("queued") >= 1
    for gate in list(handlers.gates.values()):
        gate.opened.set()
    # Those that come later find their gates shut, two at a time.
    for _ in range(2):
        for number in range(5):
            handlers.gates[f"gate {number}"].opened.set()
    assert {finished(id_).state for id_ in ids} == {"succeeded"}


def _arrived() -> int:
    return sum(gate.arrived.is_set() for gate in list(handlers.gates.values()))


def test_runs_many_jobs_on_few_threads_once_each(drain, heard):
    ids = factories.queued_many(1_000, task=handlers.echo.task_name, args=["x"])

    assert drain(threads=4) == 0

    assert set(factories.states(ids)) == {"succeeded"}
    assert len(handlers.calls) == 1_000
    assert len(heard.recorded()) == 1_000
    assert heard.count("lease_lost") == 0


def test_starts_a_job_at_its_time(start_worker):
    start_worker(poll_interval=60)
    id_ = add(handlers.noop, options={"delay": 0.5})
    late_id = add(handlers.noop, options={"delay": 3_600})

    job = finished(id_)

    assert 0 <= (job.first_claimed_at - job.run_at).total_seconds() < 5
    assert factories.get(late_id).state == "scheduled"


def test_a_job_of_an_open_transaction_starts_when_that_is_committed(start_worker):
    worker = start_worker(poll_interval=60)
    finished(add(handlers.noop))

    with transaction.atomic():
        id_ = add(handlers.noop)
    with transaction.atomic():
        gone = add(handlers.noop)
        transaction.set_rollback(True)

    assert finished(id_).state == "succeeded"
    assert not Job.objects.filter(pk=gone).exists()
    assert worker.stop() == 0


def test_drain_ends_with_what_is_due_and_leaves_what_is_not(drain):
    due = factories.queued_many(50, task=handlers.noop.task_name)
    later = add(handlers.noop, options={"delay": 3_600})

    assert drain() == 0

    assert set(factories.states(due)) == {"succeeded"}
    assert factories.get(later).state == "scheduled"


def test_drain_of_nothing_ends_at_once(drain):
    assert drain() == 0


@pytest.mark.parametrize("notify", [True, False])
def test_drain_waits_for_its_own_retries_without_a_delay(drain, settings, notify):
    settings.PGQUEUE = {**settings.PGQUEUE, "NOTIFY": notify}
    ids = [add(handlers.fail_until_last) for _ in range(20)]

    # A look that is a minute away shows that it does not wait for one.
    assert drain(poll_interval=60) == 0

    assert {factories.get(id_).result for id_ in ids} == {"at attempt 3"}


def test_drain_waits_for_jobs_that_are_enqueued_by_jobs_it_runs(start_worker):
    first = add(handlers.wait_at, "gate")
    running = start_worker(drain=True)
    assert handlers.gates["gate"].arrived.wait(20)
    second = add(handlers.noop)
    handlers.gates["gate"].opened.set()

    assert running.result() == 0

    assert factories.states([first, second]) == ["succeeded"] * 2


@pytest.mark.parametrize("threads", [1, 4])
def test_max_jobs_ends_after_exactly_so_many(start_worker, threads):
    ids = factories.queued_many(20, task=handlers.noop.task_name)

    assert start_worker(max_jobs=7, threads=threads).result() == 0

    assert sorted(factories.states(ids)) == ["queued"] * 13 + ["succeeded"] * 7


def test_is_usable_in_a_thread_of_any_program(transactional_db):
    worker = Worker(queues=["default"], **FAST)
    codes = []
    thread = Thread(target=lambda: codes.append(worker.run()))
    thread.start()
    id_ = add(handlers.where)

    assert finished(id_).result[1] != current_thread().name
    assert set(worker.health()) >= {"claimer", "completer", "heartbeat", "reaper"}
    worker.stop()
    thread.join(20)

    assert codes == [0]


def test_stop_before_run_runs_nothing(transactional_db):
    id_ = add(handlers.noop)
    worker = Worker(**FAST)
    worker.stop()

    assert worker.run() == 0
    assert factories.get(id_).state == "queued"


def test_stop_lets_running_jobs_finish_and_gives_the_others_back(start_worker):
    held = add(handlers.wait_at, "gate")
    running = start_worker(threads=1)
    assert handlers.gates["gate"].arrived.wait(20)
    waiting = [add(handlers.noop) for _ in range(3)]

    running.worker.stop()
    pause(0.3)
    assert not running.ended()
    handlers.gates["gate"].opened.set()

    assert running.result() == 0
    assert factories.get(held).state == "succeeded"
    for id_ in waiting:
        job = factories.get(id_)
        assert (job.state, job.attempts, job.lease_token) == ("queued", 0, None)


def test_stop_tells_handlers_that_ask(start_worker):
    id_ = add(handlers.wait_for_stop, "gate")
    running = start_worker()
    assert handlers.gates["gate"].arrived.wait(20)

    assert running.stop() == 0

    assert factories.get(id_).result == "stopped early"


def test_a_cancelled_job_is_told_and_its_result_is_refused(start_worker, heard):
    id_ = add(handlers.wait_for_stop, "gate")
    running = start_worker(lease=0.5)
    assert handlers.gates["gate"].arrived.wait(20)

    assert Job.objects.cancel(id_)

    assert handlers.gates["gate"].told_to_stop.wait(20)
    assert running.stop() == 0
    job = factories.get(id_)
    assert (job.state, job.result) == ("cancelled", None)
    assert heard.count("lease_lost") == 1


def test_a_cancel_is_heard_at_once(start_worker):
    id_ = add(handlers.wait_for_stop, "gate")
    running = start_worker(lease=3_600)
    assert handlers.gates["gate"].arrived.wait(20)

    assert Job.objects.cancel(id_)

    assert handlers.gates["gate"].told_to_stop.wait(20)
    assert running.stop() == 0


def test_two_workers_share_the_work_and_run_nothing_twice(start_worker):
    ids = factories.queued_many(300, task=handlers.echo.task_name, args=["x"])

    pair = [start_worker(drain=True) for _ in range(2)]
    assert [running.result() for running in pair] == [0, 0]

    assert set(factories.states(ids)) == {"succeeded"}
    assert len(handlers.calls) == 300


def test_runs_plain_tasks_that_are_for_another_backend(drain, plain_task):
    id_ = add(plain_task, 3)
    assert drain() == 0
    assert factories.get(id_).result == 4


@pytest.fixture
def plain_task(settings):
    """Return a task as Django's own decorator makes it for another backend."""
    from importlib import import_module

    from pgqueue_django.compat import Task
    from pgqueue_django.registry import registry
    from tests.tasks.conftest import DUMMY

    settings.TASKS = {"default": {"BACKEND": DUMMY}}
    known = dict(registry._tasks)
    plain = import_module(Task.__module__).task()(add_one)
    registry.register(plain)
    yield plain
    registry._tasks.clear()
    registry._tasks.update(known)


def add_one(number: int) -> int:
    return number + 1


def test_states_are_never_left_running(drain):
    factories.queued_many(20, task=handlers.noop.task_name)
    drain()
    assert not Job.objects.filter(state="running").exists()
    assert in_state(Job.objects.latest().pk, "succeeded").finished_at
