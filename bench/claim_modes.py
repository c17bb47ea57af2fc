"""SKIP LOCKED against plain FOR UPDATE: bare loops that claim and ack job by job.

Every worker is a loop on a connection of its own, with the package's own statements.
The loops are spread over processes, since the threads of one Python process would wait
for one another more than for the database.
"""

import os

from bench.stored import FOR_UPDATE, MODES, SKIP_LOCKED
from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.floor import FLOOR_QUEUE, floor
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import clear, rate, seed

_BAR_WORKERS = 16


def run(lab: Lab) -> Report:
    """Measure each number of workers in both modes by turns; jobs/s."""
    points = [(mode, n) for n in lab["workers"] for mode in MODES]
    rates: dict[tuple[str, int], list[float]] = {point: [] for point in points}
    with lab.connection() as connection:
        for repeat in lab.repeats:
            for mode, workers in points:
                with step(f"{mode}, {workers} workers, {repeat + 1}"):
                    speed = _measured(lab, connection, mode, workers)
                rates[mode, workers].append(speed)
    return _report(lab, {k: Figure.of("jobs/s", v) for k, v in rates.items()})


def _measured(lab: Lab, connection: Connection, mode: str, workers: int) -> float:
    processes = min(workers, 2 * (os.cpu_count() or 1))
    crew = floor(
        lab,
        "own",
        processes=processes,
        threads=workers // processes,
        batch=1,
        waiting=mode == FOR_UPDATE,
    )
    with crew as loops:
        handler = Handler.parse("noop")
        seeded = seed(connection, [FLOOR_QUEUE], handler, lab["jobs"])
        loops.drain()
        speed = rate(connection, seeded)
        clear(connection)
    return speed


def _report(lab: Lab, rates: dict[tuple[str, int], Figure]) -> Report:
    times = {
        n: rates[SKIP_LOCKED, n].over(rates[FOR_UPDATE, n], "times")
        for n in lab["workers"]
    }
    bar = times.get(_BAR_WORKERS)
    return Report(
        bench="claim_modes",
        measured={
            **{f"{mode}, {n} workers": each for (mode, n), each in rates.items()},
            **{
                f"skip-locked over for-update, {n} workers": t for n, t in times.items()
            },
        },
        bars=(bars.CLAIM_MODES.judge(bar.median),) if bar else (),
    )
