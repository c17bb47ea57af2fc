"""Kill the primary under load and promote its standby: ``python -m bench.failover``.

The standby is synchronous, on sockets of this machine. Workers and producers have one
URL with both hosts and ``target_session_attrs=read-write``; nobody tells them anything.
What the primary has acknowledged, enqueues and outcomes, must be there afterwards.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

from django.db import DatabaseError, InterfaceError, connection

from bench import acks
from bench.clusters import Pair, of_lab, pair
from bench.faults import FaultReport, Trial, main, parser, trial
from pgqueue_django.bench.lab import Lab
from pgqueue_django.specs import JobSpec

# Jobs start again within so long after the promotion (seconds).
_SOON = 10.0


def run(lab: Lab) -> FaultReport:
    """Fail over once under load; judge."""
    modules = ["bench.fault_tasks", "bench.acks"]
    with trial(lab, LEASE_SECONDS=lab["lease"], TASK_MODULES=modules) as run:
        run.fleet.keep(lab["processes"], f"--threads={lab['threads']}")
        pids = list(run.fleet.alive)
        run.enqueue_work(lab["jobs"])
        with _producer(run, lab["produced"]) as producer:
            run.wait(run.fleet.look, until_left=round(lab["jobs"] * 0.7))
            recovery = _fail_over(run, of_lab())
            producer.join(120)
        run.wait(run.fleet.look)
        run.fleet.look()
        replaced = len(set(pids) - set(run.fleet.alive))
        run.fleet.stop()
        forgotten = _forgotten(run)
        figures = {
            "recovery_seconds": recovery,
            "workers_replaced": replaced,
            "outcomes_acknowledged": len(acks.acknowledged()),
            "outcomes_forgotten": len(forgotten),
            "produced": lab["produced"],
        }
        failed = [f"{len(forgotten)} outcomes forgotten"] if forgotten else []
        failed += ["a worker ended"] if replaced else []
        failed += [f"jobs start after {recovery} s"] if recovery > _SOON else []
        return run.report(figures, tuple(failed))


def _fail_over(run: Trial, servers: Pair) -> float:
    """Kill, promote; return the seconds from then to the next finished job."""
    servers.kill_primary()
    Event().wait(run.lab["away"])
    servers.promote()
    begun, left = monotonic(), run.left()
    since = run.server.now()
    while run.left() and not run.server.ask(_FINISHED_SINCE, since)[0][0]:
        Event().wait(0.02)
    return round(monotonic() - begun, 2) if left else 0.0


_FINISHED_SINCE = "SELECT count(*) FROM bench_turn WHERE what = 'succeeded' AND at > %s"


@contextmanager
def _producer(run: Trial, jobs: int) -> Iterator[Thread]:
    thread = Thread(target=_produce, args=(run, jobs), daemon=True)
    thread.start()
    yield thread
    if thread.is_alive():
        raise TimeoutError("the producer did not find the new primary")


def _produce(run: Trial, jobs: int) -> None:
    """Enqueue one by one, each until it is acknowledged."""
    for number in range(jobs):
        while not _enqueued(run, number):
            Event().wait(0.05)
        Event().wait(0.02)
    connection.close()


def _enqueued(run: Trial, number: int) -> bool:
    from bench.fault_tasks import WORK
    from pgqueue_django.models import Job

    # The key makes one job of an enqueue whose answer was lost and its repetition.
    spec: Any = JobSpec.build(
        task=WORK,
        kwargs={"ms": 5.0},
        idempotency_key=f"produced-{number}",
        max_attempts=50,
    )
    try:
        run.acknowledged += Job.objects.enqueue_many([spec])
    except (DatabaseError, InterfaceError):
        return False
    return True


def _forgotten(run: Trial) -> set[tuple[int, str]]:
    """Return the acknowledged outcomes that the server knows nothing of."""
    turns = run.books().turns.values()
    known = {(t.job, t.token) for each in turns for t in each if t.what != "claimed"}
    return {pair for pair in acks.acknowledged() if pair not in known}


if __name__ == "__main__":
    given = parser(
        __doc__, jobs=2_000, produced=400, processes=3, threads=4, lease=2.0, away=1.0
    ).parse_args()
    with pair(), tempfile.TemporaryDirectory() as folder:
        os.environ[acks.FILE] = f"{folder}/acks"
        main("failover", "bench.failover:run", given)
