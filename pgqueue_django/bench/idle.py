"""``idle``: what workers cost that have nothing to do.

*Queries*: transactions that the server counts in the bench's database, for each process
and second; asked from another database, so that the question is not counted. *CPU*: of
each worker process, as a part of one core. *Memory*: resident, of the largest one. Each
repeat is a window of ``--seconds``, after the workers have run some jobs.
"""

from threading import Event
from time import monotonic
from typing import Final

from pgqueue_django.bench import bars, usage
from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.bench.workers import Workers, workers

# For what came before to be over, and to be counted: a session of the server that falls
# idle may keep its counts to itself for ten seconds.
_SETTLE: Final = 11.0

Seen = tuple[float, float, float]
"""Queries/s of a process, % of a core of a process, MB of the largest one."""


def run(lab: Lab) -> Report:
    """Look at idle workers, window by window."""
    usage.require()
    up = workers(lab, processes=lab["processes"], threads=lab["threads"])
    with up as crew, connect(DEFAULT, dbname="postgres") as outside:
        database = str(lab.site.databases[DEFAULT]["NAME"])
        Event().wait(_SETTLE)
        seen = [_window(lab, outside, database, crew) for _ in lab.repeats]
    return _report(seen)


def _window(lab: Lab, outside: Connection, database: str, crew: Workers) -> Seen:
    queries, cpu = _transactions(outside, database), usage.cpu_seconds(crew.pids)
    begun = monotonic()
    with step("idle") as shown:
        while (gone := monotonic() - begun) < lab["seconds"]:
            Event().wait(min(0.5, lab["seconds"] - gone))
            shown.reach(gone / lab["seconds"])
    crew.check()
    base = (monotonic() - begun) * len(crew.pids)
    return (
        (_transactions(outside, database) - queries) / base,
        100 * (usage.cpu_seconds(crew.pids) - cpu) / base,
        max(usage.resident_mb(crew.pids)),
    )


def _transactions(outside: Connection, database: str) -> int:
    row = outside.execute(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s",
        [database],
    ).fetchone()
    return int(row[0]) if row else 0


def _report(seen: list[Seen]) -> Report:
    queries = Figure.of("queries/s", (one[0] for one in seen))
    cpu = Figure.of("% of a core", (one[1] for one in seen))
    memory = Figure.of("MB", (one[2] for one in seen))
    return Report(
        bench="idle",
        measured={
            "queries of a process": queries,
            "CPU of a process": cpu,
            "memory of a process": memory,
        },
        bars=(
            bars.IDLE_QUERIES.judge(queries.median),
            bars.IDLE_CPU.judge(cpu.median),
            bars.IDLE_MEMORY.judge(memory.median),
        ),
    )
