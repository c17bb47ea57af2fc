"""Unique keys while workers run their jobs."""

import os
import signal

from pgqueue_django.models import Job
from tests import factories
from tests.worker import handlers
from tests.worker.conftest import add, finished, in_state

KEYED = {"unique_key": "k"}


def test_cnc_08_while_a_key_runs_nothing_of_it_can_be_enqueued(start_worker):
    """Two workers with room for more: one job of the key at any time."""
    first = add(handlers.wait_at, "slow", options=KEYED)
    for _ in range(2):
        start_worker(threads=4)
    gate = handlers.gates["slow"]
    assert gate.arrived.wait(10)

    assert {add(handlers.noop, options=KEYED) for _ in range(4)} == {first}
    assert Job.objects.count() == 1
    gate.opened.set()

    assert finished(first).attempts == 1
    second = add(handlers.noop, options=KEYED)
    assert second != first
    assert finished(second).state == "succeeded"


def test_cnc_07_a_key_that_waits_for_its_retry_holds_up_nobody(start_worker):
    failed = add(handlers.fail_and_wait, options=KEYED)
    start_worker(threads=2)
    assert in_state(failed, "scheduled").attempts == 1

    assert add(handlers.noop, options=KEYED) == failed
    others = [add(handlers.noop) for _ in range(20)]

    assert {finished(id_).state for id_ in others} == {"succeeded"}
    assert factories.get(failed).state == "scheduled"


def test_cnc_09_a_key_survives_the_death_of_its_worker(start_process, held_by, let_go):
    id_ = add(handlers.hold, str(let_go.folder), options=KEYED)
    first = start_process("--lease=1")
    assert held_by() == first.pid
    assert add(handlers.noop, options=KEYED) == id_

    os.kill(first.pid, signal.SIGKILL)
    second = start_process("--lease=1")
    assert held_by(besides=first.pid) == second.pid
    assert add(handlers.noop, options=KEYED) == id_
    let_go()

    assert finished(id_).attempts == 2
    assert add(handlers.noop, options=KEYED) != id_
    assert second.stop() == 0
    assert "IntegrityError" not in first.log + second.log
