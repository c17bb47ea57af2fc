"""``throughput``: jobs/s of workers, and of bare loops on the same table.

Workers are up, idle and warm before the jobs become visible to them, all in one commit.
The clock runs from the first claim to the last finish, by the rows' own times, so
starting, seeding and looking are not in it. Measured and floors go by turns.
"""

from contextlib import AbstractContextManager, ExitStack
from typing import Final

from pgqueue_django.bench import bars
from pgqueue_django.bench.bars import Judged
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.floor import FLOOR_QUEUE, Floor, floor
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import clear, rate, seed, wait_until_finished
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.bench.workers import Workers, workers

# What each floor runs, and on how many connections in each process. A worker claims on
# one and acks on another, so it can be ahead of "own", which waits for each commit.
_FLOORS: Final = {"own": ("own", 1), "doubled": ("own", 2), "minimal": ("minimal", 1)}

# The bars are for these.
_PROCESSES = 2
_THREADS_PER_JOB = 16


def run(lab: Lab) -> Report:
    """Measure, by turns: workers, then each floor."""
    rates: dict[str, list[float]] = {name: [] for name in ("workers", *_FLOORS)}
    with ExitStack() as stack:
        connection = stack.enter_context(lab.connection())
        floors = {
            name: stack.enter_context(_floor(lab, kind, connections))
            for name, (kind, connections) in _FLOORS.items()
        }
        measured = stack.enter_context(_workers(lab))
        for n in lab.repeats:
            rates["workers"].append(_run_workers(lab, connection, measured, n + 1))
            for name, crew in floors.items():
                rates[name].append(_run_floor(lab, connection, crew, name))
    return _report(lab, {name: Figure.of("jobs/s", r) for name, r in rates.items()})


def _workers(lab: Lab) -> AbstractContextManager[Workers]:
    settings = {"FLUSH_SIZE": lab["batch"]}
    if _per_job(lab):
        settings["DURABILITY"] = lab["durability"]
    return workers(
        lab,
        processes=lab["processes"],
        threads=lab["threads"],
        claim=lab["claim"],
        settings=settings,
    )


def _floor(lab: Lab, kind: str, connections: int) -> AbstractContextManager[Floor]:
    if not _per_job(lab):
        return floor(
            lab,
            kind,
            processes=lab["processes"],
            batch=lab["batch"],
            threads=connections,
        )
    return floor(
        lab,
        kind,
        processes=lab["processes"],
        threads=lab["threads"],
        # Together what a worker takes at once.
        batch=max(1, lab["batch"] // lab["threads"]),
        per_job=True,
    )


def _per_job(lab: Lab) -> bool:
    return bool(lab["durability"] == "per_job")


def _run_workers(lab: Lab, connection: Connection, crew: Workers, n: int) -> float:
    clear(connection)
    with step(f"workers, {n} of {lab['repeats']}") as shown:
        handler = Handler.parse(lab["handler"])
        seeded = seed(connection, [DEFAULT], handler, lab["jobs"])
        wait_until_finished(connection, seeded, shown, crew.check)
    return rate(connection, seeded)


def _run_floor(lab: Lab, connection: Connection, crew: Floor, kind: str) -> float:
    clear(connection)
    with step(f"bare loop, {kind}"):
        handler = Handler.parse("noop")
        seeded = seed(connection, [FLOOR_QUEUE], handler, lab["jobs"])
        crew.drain()
    return rate(connection, seeded)


def _report(lab: Lab, rates: dict[str, Figure]) -> Report:
    ratio = rates["workers"].over(rates["own"])
    return Report(
        bench="throughput",
        measured={
            "throughput": rates["workers"],
            "part of the bare loop": ratio,
            "part of two bare loops": rates["workers"].over(rates["doubled"]),
            "part of the minimal loop": rates["workers"].over(rates["minimal"]),
        },
        floor={
            "bare loop of this package's statements": rates["own"],
            "two bare loops in each process": rates["doubled"],
            "minimal loop of hand-written statements": rates["minimal"],
        },
        bars=tuple(_bars(lab, ratio)),
    )


def _bars(lab: Lab, ratio: Figure) -> list[Judged]:
    if lab["handler"] != "noop" or lab["claim"] != "skip-locked":
        return []
    if _per_job(lab) and lab["threads"] == _THREADS_PER_JOB:
        return [bars.PER_JOB.judge(ratio.median)]
    if not _per_job(lab) and lab["processes"] == _PROCESSES:
        return [bars.THROUGHPUT.judge(ratio.median)]
    return []
