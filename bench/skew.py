"""Let producers and workers have wrong clocks: ``python -m bench.skew``.

One fleet of workers is an hour ahead, another an hour behind; so are two producers,
which enqueue jobs for now and jobs with a delay. Leases, due times and the order of
things come from the server's clock, so nothing may be early, late, or taken from the
living.
"""

import time
from multiprocessing.connection import Connection as Pipe
from typing import Any

from bench.clocks import shifted
from bench.faults import FaultReport, Trial, main, parser, trial
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.processes import Crew
from pgqueue_django.specs import JobSpec

# A delayed job may start so much later than its time (seconds), on a busy machine.
_LATE = 5.0

# Seconds by which a claim came after the time asked for: at least, at most, delayed.
_STARTS = (
    "SELECT min(t.at - j.enqueued_at - make_interval(secs => %s)),"
    " max(t.at - j.enqueued_at - make_interval(secs => %s))"
    " FROM bench_turn t JOIN pgqueue_job j ON j.id = t.job"
    " WHERE t.is_first AND j.idempotency_key LIKE 'delayed-%%'"
)


def run(lab: Lab) -> FaultReport:
    """Run jobs between wrong clocks; judge."""
    clocks = (lab["hour"], -lab["hour"])
    with trial(lab, clocks=clocks, LEASE_SECONDS=lab["lease"]) as run:
        run.fleet.keep(2 * lab["processes"], f"--threads={lab['threads']}")
        jobs, delay = lab["jobs"] // 2, lab["delay"]
        shifts = [produce_elsewhere(run, each, jobs, delay) for each in clocks]
        # Longer than a lease, so that renewals are a part of it.
        run.enqueue_work(8, low=2_000 * lab["lease"], high=2_500 * lab["lease"])
        run.wait(run.fleet.look)
        run.fleet.stop()
        early, late = started_after(run, delay)
        figures = {
            "clocks_off_by": shifts,
            "delayed_start_earliest": early,
            "delayed_start_latest": late,
        }
        failed = ["a clock was not shifted"] if not all(map(abs, shifts)) else []
        failed += ["a delayed job was early"] if early < 0 else []
        failed += ["a delayed job was late"] if late > _LATE else []
        return run.report(figures, tuple(failed), hurt=())


def started_after(run: Trial, delay: float) -> tuple[float, float]:
    """Return by how much delayed jobs came after their time: at least, at most."""
    early, late = run.server.ask(_STARTS, delay, delay)[0]
    return early.total_seconds(), late.total_seconds()


def produce_elsewhere(run: Trial, shift: float, jobs: int, delay: float) -> int:
    """Enqueue in a process whose clock is off; return by how much it was (seconds)."""
    given = {"jobs": jobs, "delay": delay}
    with shifted(shift), Crew(run.lab.site, f"{__name__}:produce", [given]) as crew:
        ids, clock = crew.hear()[0]
    run.acknowledged += ids
    off: int = round(clock - time.time())
    return off


def produce(pipe: Pipe, jobs: int, delay: float) -> None:
    """Be a producer: half of the jobs for now, half with a delay."""
    from bench.fault_tasks import WORK
    from pgqueue_django.models import Job

    shared: dict[str, Any] = {"task": WORK, "kwargs": {"ms": 20.0}, "max_attempts": 50}
    clock = time.time()
    specs = [
        JobSpec.build(
            **shared, delay=delay, idempotency_key=f"delayed-{clock:.0f}-{number}"
        )
        if number % 2
        else JobSpec.build(**shared)
        for number in range(jobs)
    ]
    pipe.send((Job.objects.enqueue_many(specs), time.time()))


if __name__ == "__main__":
    given = parser(
        __doc__, jobs=1_000, processes=2, threads=4, lease=2.0, delay=3.0, hour=3_600.0
    ).parse_args()
    main("skew", "bench.skew:run", given)
