"""Stop workers gracefully under full backlog: ``python -m bench.stops``.

Each must exit with 0 within its shutdown timeout, and leave no lease behind.
"""

import os
import signal
from dataclasses import dataclass
from threading import Event
from time import monotonic

from bench.faults import TICK, FaultReport, Trial, main, parser, trial
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.lab import Lab

_RUNNING = "SELECT count(*) FROM pgqueue_job WHERE state = 'running'"

# How long a worker may take to claim its first job (seconds).
_START = 60.0


@dataclass(frozen=True, slots=True)
class Stop:
    """How one went: exit code, seconds, leases left behind."""

    code: int
    seconds: float
    leases: int


def run(lab: Lab) -> FaultReport:
    """Start and stop workers one after the other; judge."""
    with trial(lab) as run:
        run.enqueue_work(lab["jobs"])
        stops = [_stop_one(run) for _ in range(lab["stops"])]
        from pgqueue_django.models import Job

        # The rest of the backlog has done its part.
        Job.objects.cancel_many(run.acknowledged)
        bad = [
            stop
            for stop in stops
            if stop.code or stop.leases or stop.seconds > lab["timeout"]
        ]
        figures = {
            "stops": len(stops),
            "stops_clean": len(stops) - len(bad),
            "stop_seconds_longest": max(stop.seconds for stop in stops),
        }
        return run.report(figures, tuple(map(str, bad)), hurt=())


def _stop_one(run: Trial) -> Stop:
    lab = run.lab
    flags = [f"--threads={lab['threads']}", f"--shutdown-timeout={lab['timeout']}"]
    if lab["processes"]:
        flags.append(f"--processes={lab['processes']}")
    pid = run.fleet.start(*flags)
    deadline = monotonic() + _START
    while not run.server.ask(_RUNNING)[0][0]:
        if monotonic() > deadline:
            raise BenchError(f"no job was claimed:\n{run.log_tail()}")
        Event().wait(TICK)
    Event().wait(run.random.uniform(0.0, 0.5))
    begun = monotonic()
    os.kill(pid, signal.SIGTERM)
    while pid not in run.fleet.codes and monotonic() < begun + lab["timeout"] + 10:
        Event().wait(TICK)
        run.fleet.look()
    took = monotonic() - begun
    leases = int(run.server.ask(_RUNNING)[0][0])
    return Stop(run.fleet.codes.get(pid, -1), round(took, 3), leases)


if __name__ == "__main__":
    given = parser(
        __doc__, jobs=4_000, stops=20, threads=4, processes=0, timeout=5.0
    ).parse_args()
    main("stops_supervised" if given.processes else "stops", "bench.stops:run", given)
