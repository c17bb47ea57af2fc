"""The registry of workers: for people, and no worker's trouble."""

import os

import pytest
from django.db import connection

from pgqueue_django.db import DjangoSession
from pgqueue_django.managers.workers import Introduction, beat
from pgqueue_django.models import WorkerProcess
from pgqueue_django.stats.workers import is_silent, workers
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import WAIT, add, finished

SESSION = DjangoSession("default")


def introduced(name):
    return Introduction(name, "host", 1, "default", 2, 100, "1.0")


def aged(name, seconds):
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_worker SET seen_at = seen_at - %s * interval '1 second'"
            " WHERE name = %s",
            [seconds, name],
        )


def test_a_worker_is_there_until_it_stops(start_worker):
    running = start_worker("a=2,b=1", async_slots=7)
    (seen,) = wait_until(workers, WAIT)
    assert seen.name == running.identity
    assert (seen.pid, seen.queues, seen.threads) == (os.getpid(), "a=2,b=1", 2)
    assert seen.async_slots == 7
    assert seen.silence < WAIT
    assert running.stop() == 0
    assert workers() == []


def test_children_show_their_own_pids(start_process):
    process = start_process("--processes=2")
    wait_until(lambda: len(workers()) == 2, WAIT)
    seen = workers()
    assert process.pid not in {worker.pid for worker in seen}
    assert all(f"-{worker.pid}-" in worker.name for worker in seen)
    assert process.stop() == 0


def test_without_the_table_work_goes_on(start_worker):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE pgqueue_worker RENAME TO gone")
    try:
        running = start_worker()
        assert finished(add(handlers.noop)).state == "succeeded"
        assert running.stop() == 0
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE gone RENAME TO pgqueue_worker")


@pytest.mark.django_db
def test_a_beat_deletes_what_was_silent_for_an_hour_but_never_its_own_row():
    for name in ("old", "young", "own"):
        beat(SESSION, introduced(name), running=0, age=0)
    aged("old", 3_601)
    aged("young", 3_500)
    aged("own", 9_000)
    beat(SESSION, introduced("own"), running=1, age=0)
    seen = {worker.name: worker for worker in workers()}
    assert sorted(seen) == ["own", "young"]
    assert seen["own"].running == 1
    assert is_silent(seen["young"].silence)
    assert not is_silent(seen["own"].silence)
    assert WorkerProcess.objects.count() == 2
