"""``soak``: memory, dead rows and table size under a steady load.

The load is half of what the workers do at full speed, measured just before. Finished
jobs are pruned after some seconds. Once in a while everything is looked at; *start* is
the median of what was seen in the fifth after the first fifth, *end* that of the last.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from time import monotonic
from typing import Final

from pgqueue_django.bench import bars, usage
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.pacing import paced
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import clear, rate, seed, wait_until_finished
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.bench.workers import Workers, workers
from pgqueue_django.db import WorkerSession
from pgqueue_django.models import Job

_FULL_SPEED_JOBS: Final = 20_000  # or 200 for each second of a short soak
_BATCHES: Final = 10  # in a second
_LOOKS: Final = 50  # over all the time
_KEEP: Final = 5.0  # seconds that finished jobs are kept
_PRUNE: Final = 5_000  # rows in a statement
_PARTS: Final = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one time."""

    memory: float
    table: float
    dead: float
    waiting: float


def run(lab: Lab) -> Report:
    """Run jobs for so many seconds, at half speed."""
    usage.require()
    with ExitStack() as stack:
        connection = stack.enter_context(lab.connection())
        crew = stack.enter_context(
            workers(lab, processes=lab["processes"], threads=lab["threads"])
        )
        jobs = min(_FULL_SPEED_JOBS, round(200 * lab["seconds"]))
        speed = _full_speed(connection, crew, jobs)
        looks = _soak(lab, connection, crew, speed / 2)
    return _report(looks, speed)


def _full_speed(connection: Connection, crew: Workers, jobs: int) -> float:
    with step("full speed") as shown:
        handler = Handler.parse("noop")
        seeded = seed(connection, [DEFAULT], handler, jobs)
        wait_until_finished(connection, seeded, shown, crew.check)
    speed = rate(connection, seeded)
    clear(connection)
    return speed


def _soak(lab: Lab, connection: Connection, crew: Workers, load: float) -> list[Look]:
    batches = max(_LOOKS, round(lab["seconds"] * _BATCHES))
    each = max(1, round(load / _BATCHES))
    looks: list[Look] = []
    pruner = _Pruner()
    with step("steady load") as shown:
        for n in paced(_BATCHES, batches):
            seed(connection, [DEFAULT], Handler.parse("noop"), each)
            pruner.prune()
            if n % (batches // _LOOKS) == 0:
                crew.check()
                looks.append(_look(connection, crew))
                shown.reach(n / batches)
    pruner.close()
    return looks


class _Pruner:
    """Deletes old jobs, in the place of the retention that workers will keep."""

    def __init__(self) -> None:
        self._session = WorkerSession(DEFAULT, name="pgqueue bench pruner")
        self._jobs = Job.objects.on(self._session)
        self._next = 0.0

    def prune(self) -> None:
        """Delete a batch; wait a second when none is left."""
        if monotonic() >= self._next:
            deleted = self._jobs.prune(older_than=_KEEP, limit=_PRUNE)
            self._next = 0.0 if deleted == _PRUNE else monotonic() + 1.0

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def _look(connection: Connection, crew: Workers) -> Look:
    row = connection.execute(
        "SELECT pg_total_relation_size(relid) / 1e6, n_dead_tup,"
        " (SELECT count(*) FROM pgqueue_job WHERE state = 'queued')"
        " FROM pg_stat_user_tables WHERE relname = 'pgqueue_job'"
    ).fetchone()
    size, dead, waiting = row or (0, 0, 0)
    return Look(
        memory=max(usage.resident_mb(crew.pids)),
        table=float(size),
        dead=float(dead),
        waiting=float(waiting),
    )


def part_of(values: list[float], number: int) -> float:
    """Return the median of one fifth of the values, counted from 0."""
    first, last = len(values) * number // _PARTS, len(values) * (number + 1) // _PARTS
    return median(values[first : max(last, first + 1)])


def _report(looks: list[Look], speed: float) -> Report:
    seen = {
        name: [float(getattr(look, name)) for look in looks]
        for name in Look.__dataclass_fields__
    }
    ends = {
        name: (part_of(values, 1), part_of(values, _PARTS - 1))
        for name, values in seen.items()
    }
    growth = {
        name: Figure.of("times", [ends[name][1] / max(ends[name][0], 1e-9)])
        for name in ("memory", "table")
    }
    units = {"memory": "MB", "table": "MB", "dead": "rows", "waiting": "jobs"}
    measured = {
        f"{name}, {when}": Figure.of(units[name], [value])
        for name, pair in ends.items()
        for when, value in zip(("start", "end"), pair, strict=True)
    }
    return Report(
        bench="soak",
        measured={
            "load": Figure.of("jobs/s", [speed / 2]),
            **measured,
            **{f"{name}, end over start": each for name, each in growth.items()},
        },
        floor={"full speed": Figure.of("jobs/s", [speed])},
        bars=(
            bars.SOAK_MEMORY.judge(growth["memory"].median),
            bars.SOAK_TABLE.judge(growth["table"].median),
        ),
    )
