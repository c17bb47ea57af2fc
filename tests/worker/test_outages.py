"""What an outage of the server costs: no job an attempt, and no flood of words."""

import logging
from functools import partial

from django.db.models.functions import Now

from pgqueue_django import signals
from pgqueue_django.backoff import Backoff
from pgqueue_django.models import Job
from pgqueue_django.worker.loop import Loop, Recovery
from tests.waiting import wait_until
from tests.worker import handlers
from tests.worker.conftest import WAIT, add, finished, pause, unclaimed_attempt

LEASE = 1.5


class Flaky:
    """A service that fails some times before it works."""

    name = "flaky"

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.runs = 0

    def run_once(self) -> float:
        self.runs += 1
        if self.runs <= self.failures:
            raise OSError("away")
        return 0.001

    def close(self) -> None:
        pass


def lease_lives(id_: int) -> bool:
    return Job.objects.filter(pk=id_, lease_expires_at__gt=Now()).exists()


def test_an_outage_that_outlasts_all_leases_is_nobodys_lost_lease(
    start_worker, proxy, heard
):
    ids = [add(handlers.wait_at, f"gate {number}") for number in range(4)]
    workers = [start_worker(database="proxied", lease=LEASE) for _ in range(2)]
    for number in range(4):
        assert handlers.gates[f"gate {number}"].arrived.wait(WAIT)

    proxy.refuse(sqlstate="57P03")
    proxy.cut()
    pause(2 * LEASE)
    proxy.allow()
    # Renewed again, or already run a second time.
    for id_ in ids:
        wait_until(partial(lease_lives, id_))
    for number in range(4):
        handlers.gates[f"gate {number}"].opened.set()

    assert [finished(id_).attempts for id_ in ids] == [1] * 4
    assert heard.count("lease_expired") == 0
    assert [worker.stop() for worker in workers] == [0, 0]


def test_work_goes_on_within_two_seconds_after_a_long_outage():
    recovery = Recovery("test")

    waits = [recovery.failed(OSError("away")) for _ in range(30)]

    assert max(waits) <= 1.0
    assert min(waits[5:]) >= 0.5


def test_a_service_that_works_again_says_so_once():
    told = []
    service = Flaky(failures=2)
    loop = Loop(service, Backoff(base=0.0), lambda: told.append(service.runs))

    loop.start()
    wait_until(lambda: service.runs > 5)
    loop.stop()
    assert loop.join(WAIT)

    assert told == [3]


def test_many_loops_tell_of_one_outage_once(caplog):
    caplog.set_level(logging.INFO, logger="pgqueue_django")
    for number in range(5):
        signals.loop_failed.send(None, loop=f"{number}", error=OSError("x"), wait=1.0)
    for number in range(5):
        signals.loop_recovered.send(None, loop=f"{number}", after=1.0)

    assert len(caplog.records) <= 2


def test_all_leases_that_an_outage_takes_are_one_line_a_second(caplog):
    caplog.set_level(logging.INFO, logger="pgqueue_django")
    for number in range(5):
        attempt = unclaimed_attempt(id=number)
        signals.lease_lost.send(None, attempt=attempt, verb="renew")

    assert len(caplog.records) <= 1
