"""How many jobs a worker takes whose threads and async slots fill up apart."""

import pytest

from pgqueue_django.models import Job
from pgqueue_django.worker import Worker
from pgqueue_django.worker.claimer import _TASKS_DEPTH
from pgqueue_django.worker.parts import Parts
from pgqueue_django.worker.pools import NO_ROOM, Pools, Room
from tests import factories
from tests.waiting import wait_until
from tests.worker import async_handlers, handlers
from tests.worker.conftest import WAIT, add, finished, pause, unclaimed_attempt

SYNC = handlers.wait_at.task_name
ASYNC = async_handlers.nothing.task_name
LASTING = async_handlers.hold_for_ever.task_name


@pytest.fixture
def pools(transactional_db, monkeypatch) -> Pools:
    """Return the pools of a worker that starts none of them."""
    worker = Worker(threads=4, async_slots=100)
    made = Parts(worker.options, "test").pools
    monkeypatch.setattr(made.loop, "submit", made.loop._add)
    return made


def attempts(task: str, count: int):
    return [unclaimed_attempt(id=number, task=task) for number in range(count)]


def running(task: str) -> int:
    return Job.objects.filter(state="running", task=task).count()


def test_at_first_it_is_the_threads_that_count(pools):
    assert pools.room == Room(4)


def test_as_async_jobs_come_more_of_them_are_taken(pools):
    sizes = []
    for _ in range(6):
        sizes.append(pools.room.jobs)
        pools.submit(attempts(ASYNC, 1), mixed=True)
    assert sizes == sorted(sizes)
    assert sizes[0] == 4
    assert sizes[-1] > 50


def test_of_a_mixture_no_kind_is_expected_to_have_more_than_its_room(pools):
    for _ in range(20):
        pools.submit(attempts(ASYNC, 1) + attempts(SYNC, 1), mixed=True)
        pools.take_back()
    assert pools.room.jobs in (7, 8)


def test_while_the_threads_are_busy_only_async_jobs_are_taken(pools):
    pools.submit(attempts(SYNC, 4), mixed=True)
    jobs, tasks = pools.room
    assert jobs == 100
    assert tasks is not None
    assert ASYNC in tasks
    assert SYNC not in tasks


def test_while_the_slots_are_full_only_sync_jobs_are_taken(pools):
    pools.submit(attempts(ASYNC, 100), mixed=True)
    jobs, tasks = pools.room
    assert jobs == 4
    assert tasks is not None
    assert SYNC in tasks
    assert ASYNC not in tasks


def test_nothing_is_taken_when_both_are_full(pools):
    pools.submit(attempts(ASYNC, 100) + attempts(SYNC, 4), mixed=True)
    assert pools.room == NO_ROOM


def test_what_was_taken_of_one_kind_says_nothing_of_the_mixture(pools):
    pools.submit(attempts(ASYNC, 10), mixed=False)
    assert pools.room == Room(4)


def test_async_jobs_run_while_all_threads_are_busy(start_worker):
    slow = factories.queued_many(20, task=SYNC, args=["gate"])
    start_worker(threads=2)
    wait_until(lambda: running(SYNC) == 2)

    ids = factories.queued_many(50, task=ASYNC)
    assert {finished(id_).state for id_ in ids} == {"succeeded"}
    assert finished(add(async_handlers.nothing)).state == "succeeded"

    assert factories.states(slow).count("queued") == 18


def test_sync_jobs_run_while_all_slots_are_full(start_worker):
    lasting = factories.queued_many(20, task=LASTING, args=["gate"])
    start_worker(threads=2, async_slots=3, shutdown_timeout=0)
    wait_until(lambda: running(LASTING) == 3)

    assert finished(add(handlers.noop)).state == "succeeded"

    assert factories.states(lasting).count("queued") == 17


def test_slow_sync_jobs_of_a_mixture_are_left_for_another_worker(start_worker):
    mixture = [
        add(handlers.wait_at, "gate") if number % 5 == 0 else add(async_handlers.nap, 0)
        for number in range(100)
    ]
    start_worker(threads=2)
    for number, id_ in enumerate(mixture):
        if number % 5:
            finished(id_)
    wait_until(lambda: running(SYNC) == 2)
    pause(0.3)
    assert running(SYNC) == 2

    start_worker(threads=3)

    wait_until(lambda: running(SYNC) == 5)


def test_async_jobs_far_behind_are_found_when_the_queue_moves(start_worker):
    slow = factories.queued_many(_TASKS_DEPTH + 3, task=SYNC, args=["gate"])
    id_ = add(async_handlers.nothing)
    start_worker(threads=2)
    wait_until(lambda: running(SYNC) == 2)

    Job.objects.filter(pk__in=slow, state="queued").filter(pk__gt=slow[10]).update(
        state="cancelled", finished_at="2026-01-01T00:00Z"
    )

    assert finished(id_, WAIT).state == "succeeded"


def test_a_queue_looked_at_for_one_kind_is_drained_of_the_other(drain):
    ids = [add(handlers.noop) for _ in range(30)]
    ids += [add(async_handlers.nap, 0.01) for _ in range(30)]
    assert drain(threads=1, async_slots=1) == 0
    assert set(factories.states(ids)) == {"succeeded"}
