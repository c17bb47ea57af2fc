"""Short jobs are taken ahead, slow ones are not, and what did not start goes back."""

import pytest

from pgqueue_django.models import Job
from pgqueue_django.outcomes import Released
from pgqueue_django.worker.prefetch import MOST, Prefetch
from tests import factories
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import WAIT, add, finished, pause

NOOP = handlers.noop.task_name
WAITING = handlers.wait_at.task_name


def running() -> int:
    return Job.objects.filter(state="running").count()


def learned(*seconds: float, threads: int = 2) -> int:
    prefetch = Prefetch(threads)
    for each in seconds:
        prefetch.ran(each)
    return prefetch.size


def test_takes_nothing_ahead_before_it_has_seen_jobs():
    assert learned() == 0


def test_takes_hundreds_of_short_jobs_ahead():
    assert learned(*[0.0001] * 300) == MOST
    assert learned(*[0.0] * 2_000) == MOST


def test_takes_no_slow_job_ahead():
    assert learned(*[1.0] * 10) == 0


def test_takes_few_jobs_ahead_that_take_a_moment():
    assert 1 <= learned(*[0.05] * 300) <= 5


def test_one_slow_job_after_many_short_ones_is_noticed():
    short = [0.0001] * 300
    assert learned(*short, 1.0) < 10


def test_takes_nothing_ahead_again_after_a_stall():
    prefetch = Prefetch(2)
    for _ in range(300):
        prefetch.ran(0.0001)
    prefetch.stalled()
    assert prefetch.size == 0


def test_prf_13_slow_jobs_are_left_for_others(start_worker):
    ids = factories.queued_many(10, task=WAITING, args=["gate"])
    start_worker(threads=2)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    wait_until(lambda: running() == 2)

    pause(0.3)

    assert running() == 2
    assert factories.states(ids).count("queued") == 8


def test_prf_13_jobs_taken_ahead_go_back_when_those_before_turn_out_slow(
    start_worker, heard
):
    factories.queued_many(500, task=NOOP)
    slow = factories.queued_many(40, task=WAITING, args=["gate"])
    worker = start_worker(threads=2, lease=30)
    assert handlers.gates["gate"].arrived.wait(WAIT)

    wait_until(lambda: running() == 2)

    back = Job.objects.filter(pk__in=slow, state="queued")
    assert set(back.values_list("attempts", flat=True)) == {0}
    handlers.gates["gate"].opened.set()
    for id_ in slow:
        job = finished(id_)
        assert (job.state, job.attempts) == ("succeeded", 1)
    assert worker.stop() == 0
    assert heard.count("lease_lost") == 0


@pytest.mark.parametrize("size", [1, 3])
def test_prf_13_jobs_taken_ahead_go_back_at_the_end(start_worker, heard, size):
    ids = factories.queued_many(3_000, task=NOOP)
    worker = start_worker(threads=size, lease=30)
    wait_until(heard.recorded)

    assert worker.stop() == 0

    for job in Job.objects.filter(pk__in=ids).exclude(state="succeeded"):
        assert (job.state, job.attempts, job.lease_token) == ("queued", 0, None)
    assert heard.count("lease_lost") == 0


def test_max_jobs_is_exact_though_jobs_are_taken_ahead(start_worker):
    ids = factories.queued_many(1_500, task=NOOP)

    assert start_worker(threads=2, max_jobs=1_000).result() == 0

    assert factories.states(ids).count("succeeded") == 1_000
    assert add(handlers.noop)


def test_jobs_that_went_back_do_not_count_for_max_jobs(start_worker):
    factories.queued_many(500, task=NOOP)
    factories.queued_many(40, task=WAITING, args=["gate"])
    worker = start_worker(threads=2, lease=30, max_jobs=530)
    assert handlers.gates["gate"].arrived.wait(WAIT)
    wait_until(lambda: running() == 2)

    handlers.gates["gate"].opened.set()

    assert worker.result() == 0
    # Of which kind is open: on a slow machine short ones went back too.
    assert factories.states().count("succeeded") == 530


def test_jobs_that_went_back_stay_there_while_slow_ones_run(start_worker, heard):
    factories.queued_many(500, task=NOOP)
    factories.queued_many(40, task=WAITING, args=["gate"])
    start_worker(threads=2, lease=30)
    assert handlers.gates["gate"].arrived.wait(WAIT)

    pause(2)

    given_back = [entry for entry in heard.recorded() if entry[1] == Released()]
    assert len(given_back) <= 40
    assert running() == 2
