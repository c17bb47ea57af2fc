"""``latency``: from enqueue to the handler's first line, at a steady rate.

Jobs are enqueued one by one by ``task.enqueue()``, each in a transaction of its own,
while workers are otherwise idle. The handler's first line reads the machine's monotonic
clock, which all processes share, and returns it as the job's result. *Immediate*: since
just before the call of ``enqueue()``, in ms. *Delayed*: since the job's ``run_at``, in
ms. *Commit*: of jobs enqueued in ``atomic()``, since COMMIT has returned. The floor is
the same for a process that LISTENs, hears of each row after its INSERT has committed,
and SELECTs it: no claim, no handler.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from random import uniform
from threading import Event
from time import CLOCK_REALTIME, clock_gettime, monotonic
from typing import Final

from django.db import transaction

from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure, percentile
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.listening import ListenFloor, listen_floor
from pgqueue_django.bench.pacing import paced
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import Seeded, clear, wait_until_finished
from pgqueue_django.bench.tasks import stamp
from pgqueue_django.bench.workers import Workers, workers

PERCENTS: Final = (50, 95, 99)
_COMMITS: Final = 50
_DELAY: Final = 1.0  # seconds
_LATEST: Final = "latest due"

Samples = dict[str, list[list[float]]]
"""Milliseconds of the jobs of each repeat."""


def run(lab: Lab) -> Report:
    """Measure, by turns: immediate, delayed, after a commit, and the floor."""
    samples: Samples = {"immediate": [], "delayed": [], "commit": [], "listen": []}
    with (
        lab.connection() as connection,
        listen_floor(lab) as listener,
        _up(lab) as crew,
    ):
        for _ in lab.repeats:
            clear(connection)
            samples["immediate"].append(_immediate(lab, connection, crew))
            samples["delayed"].append(_delayed(lab, connection, crew))
            samples["commit"].append(_commits(connection, crew))
            samples["listen"].append(_listened(lab, connection, listener))
    return _report(samples)


def _up(lab: Lab) -> AbstractContextManager[Workers]:
    return workers(lab, processes=lab["processes"], threads=lab["threads"])


def _immediate(lab: Lab, connection: Connection, crew: Workers) -> list[float]:
    with step("immediate") as shown:
        ids = []
        for n in paced(lab["rate"], lab["jobs"]):
            ids.append(stamp.enqueue(at=monotonic()).id)
            shown.reach(n / lab["jobs"])
        return [1_000 * since for since, _ in _stamps(connection, ids, crew)]


def _delayed(lab: Lab, connection: Connection, crew: Workers) -> list[float]:
    later, ahead = stamp.using(delay=_DELAY), _clock_ahead(connection)
    with step("delayed") as shown:
        ids = []
        for n in paced(lab["rate"], lab["jobs"]):
            ids.append(later.enqueue(at=0.0).id)
            shown.reach(n / lab["jobs"])
        started = [wall for _, wall in _stamps(connection, ids, crew)]
    rows = connection.execute(
        "SELECT extract(epoch FROM run_at)::float8 FROM pgqueue_job"
        " WHERE id = ANY(%s) ORDER BY id",
        [[int(id_) for id_ in ids]],
    )
    due = [float(row[0]) - ahead for row in rows]
    return [1_000 * (s - d) for s, d in zip(started, due, strict=True)]


def _commits(connection: Connection, crew: Workers) -> list[float]:
    committed: list[float] = []
    ids = []
    with step("after a commit") as shown:
        for n in range(_COMMITS):
            # At odd times, so that no timer of a worker keeps step.
            Event().wait(uniform(0.02, 0.08))
            with transaction.atomic():
                # The first of the hooks, so before the one that notifies workers.
                transaction.on_commit(lambda: committed.append(monotonic()))
                ids.append(stamp.enqueue(at=0.0).id)
            shown.reach(n / _COMMITS)
        started = [since for since, _ in _stamps(connection, ids, crew)]
    return [1_000 * (s - c) for s, c in zip(started, committed, strict=True)]


def _listened(lab: Lab, connection: Connection, listener: ListenFloor) -> list[float]:
    with step("bare LISTEN") as shown:
        return listener.measure(connection, lab["rate"], lab["jobs"], shown)


def _stamps(
    connection: Connection, ids: Iterable[str], crew: Workers
) -> list[tuple[float, float]]:
    """Wait for jobs, and return what their handlers returned, in order."""
    numbers = sorted(map(int, ids))
    with step("to the last") as shown:
        seeded = Seeded(numbers[0], numbers[-1])
        wait_until_finished(connection, seeded, shown, crew.check)
    rows = connection.execute(
        "SELECT result FROM pgqueue_job WHERE id = ANY(%s) ORDER BY id", [numbers]
    )
    return [(float(since), float(wall)) for ((since, wall),) in rows]


def _clock_ahead(connection: Connection) -> float:
    """Return how far the server's clock is ahead of this machine's (seconds)."""
    return min(_clock_look(connection) for _ in range(20))[1]


def _clock_look(connection: Connection) -> tuple[float, float]:
    before = clock_gettime(CLOCK_REALTIME)
    row = connection.execute(
        "SELECT extract(epoch FROM clock_timestamp())::float8"
    ).fetchone()
    after = clock_gettime(CLOCK_REALTIME)
    # The shortest trip tells the time best.
    return after - before, float(row[0] if row else 0.0) - (before + after) / 2


def _report(samples: Samples) -> Report:
    figures = {
        f"{kind} p{percent}": _percentiles(repeats, percent)
        for kind, repeats in samples.items()
        for percent in PERCENTS
    }
    floor = {
        f"LISTEN p{percent}": figures.pop(f"listen p{percent}") for percent in PERCENTS
    }
    times = {
        f"immediate p{percent}, times the floor": figures[f"immediate p{percent}"].over(
            floor[f"LISTEN p{percent}"], "times"
        )
        for percent in PERCENTS
    }
    return Report(
        bench="latency",
        measured={**figures, **times},
        floor=floor,
        bars=(
            bars.LATENCY_P50.judge(times["immediate p50, times the floor"].median),
            bars.LATENCY_P99.judge(times["immediate p99, times the floor"].median),
            bars.DELAYED.judge(figures["delayed p99"].median),
            bars.COMMIT.judge(figures["commit p50"].median),
        ),
    )


def _percentiles(repeats: list[list[float]], percent: float) -> Figure:
    return Figure.of("ms", (percentile(times, percent) for times in repeats))
