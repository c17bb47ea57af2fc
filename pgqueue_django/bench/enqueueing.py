"""``enqueue``: jobs/s of one producer, and of bare INSERTs by psycopg.

*One by one*: ``task.enqueue()``, each in a transaction of its own; NOTIFY is part of
it, as the project's settings have it. *In a transaction*: all in one ``atomic()``.
*Many*: ``enqueue_many`` of that many jobs from a generator, all in one transaction, in
slices of 10,000, with the making of their specs; *memory* is what this process has at
most had more than before. The floors
write the same columns on one connection, with statements prepared: INSERT by INSERT, in
one transaction, and by unnest, 1,000 rows in a statement. No worker runs.
"""

import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Final

from django.db import transaction

from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.plain import INSERT, UNNEST, insert_values, unnest_values
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import clear
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.bench.tasks import stamp
from pgqueue_django.models import Job
from pgqueue_django.specs import JobSpec

_CHUNK: Final = 1_000
_SLICE: Final = 10_000
_WARM_UP: Final = 20

ONE, IN_TRANSACTION, MANY = "one by one", "in a transaction", "enqueue_many"
_MEMORY: Final = f"{MANY}, memory"

Way = Callable[[int], None]
"""Enqueues so many jobs."""


def run(lab: Lab) -> Report:
    """Measure each way, and its floor, by turns."""
    with lab.connection() as connection:
        ways, floors = _ways(), _floors(connection)
        rates: dict[str, list[float]] = {name: [] for name in (*ways, *floors)}
        for way in (*ways.values(), *floors.values()):
            way(_WARM_UP)
        memory: list[float] = []
        for _ in lab.repeats:
            for own, bare in zip(ways, floors, strict=True):
                jobs = lab["many"] if own == MANY else lab["jobs"]
                before = _most_memory()
                rates[own].append(_rate(connection, own, ways[own], jobs))
                if own == MANY:
                    memory.append(_most_memory() - before)
                rates[bare].append(_rate(connection, bare, floors[bare], jobs))
    report = _report(
        {name: Figure.of("jobs/s", r) for name, r in rates.items()},
        Figure.of("MB", [max(memory)]),
    )
    # They are told of one slice at most.
    return report if lab["many"] <= _SLICE else replace(report, bars=())


def _ways() -> dict[str, Way]:
    return {ONE: _one_by_one, IN_TRANSACTION: _in_transaction, MANY: _many}


def _one_by_one(jobs: int) -> None:
    for _ in range(jobs):
        stamp.enqueue(at=0.0)


def _in_transaction(jobs: int) -> None:
    with transaction.atomic():
        _one_by_one(jobs)


def _many(jobs: int) -> None:
    name = stamp.task_name
    specs = (JobSpec.build(task=name, kwargs={"at": 0.0}) for _ in range(jobs))
    with transaction.atomic():
        while Job.objects.enqueue_many(islice(specs, _SLICE)):
            pass


def _most_memory() -> float:
    """Return what this process has had in memory at most, in MB (10**6 bytes)."""
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


_INSERTS: Final = "INSERT, one by one"
_INSERTS_IN_ONE: Final = "INSERT, in a transaction"
_UNNEST: Final = "unnest INSERT"


def _floors(connection: Connection) -> dict[str, Way]:
    def inserts(jobs: int) -> None:
        for _ in range(jobs):
            connection.execute(INSERT, insert_values(DEFAULT)).fetchone()

    def inserts_in_one(jobs: int) -> None:
        with connection.transaction():
            inserts(jobs)

    def unnest(jobs: int) -> None:
        with connection.transaction():
            for done in range(0, jobs, _CHUNK):
                values = unnest_values(DEFAULT, min(_CHUNK, jobs - done))
                connection.execute(UNNEST, values).fetchall()

    return {_INSERTS: inserts, _INSERTS_IN_ONE: inserts_in_one, _UNNEST: unnest}


def _rate(connection: Connection, name: str, way: Way, jobs: int) -> float:
    clear(connection)
    with step(name):
        begun = perf_counter()
        way(jobs)
        return jobs / (perf_counter() - begun)


def _report(rates: dict[str, Figure], memory: Figure) -> Report:
    floors = {name: rates[name] for name in (_INSERTS, _INSERTS_IN_ONE, _UNNEST)}
    measured = {name: rates[name] for name in (ONE, IN_TRANSACTION, MANY)}
    parts = {
        f"{own}, part of the floor": measured[own].over(floors[bare])
        for own, bare in zip(measured, floors, strict=True)
    }
    return Report(
        bench="enqueue",
        measured={**measured, **parts, _MEMORY: memory},
        floor=floors,
        bars=(
            bars.ENQUEUE_ONE.judge(parts[f"{ONE}, part of the floor"].median),
            bars.ENQUEUE_MANY.judge(parts[f"{MANY}, part of the floor"].median),
        ),
    )
