"""``growth``: throughput and claim time beside millions of rows, and beside none.

Two databases: an empty one, and one with so many finished jobs, as many scheduled ones
at the highest priority, and as many queued in a queue that nobody serves. Workers run
no-op jobs in one and in the other by turns; their jobs alone go away between repeats.
Claim p95 is of claims that took jobs, by the worker's own stop-watch.
"""

from contextlib import AbstractContextManager, ExitStack
from typing import Final, LiteralString

from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure, percentile
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.progress import Step, step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import (
    Seeded,
    clear,
    rate,
    seed,
    wait_until_finished,
)
from pgqueue_django.bench.sites import DEFAULT, SECOND
from pgqueue_django.bench.workers import Workers, workers

_CHUNK: Final = 50_000
EMPTY, FULL = "empty table", "full table"
_ALIASES: Final = {EMPTY: DEFAULT, FULL: SECOND}

# Old jobs of each kind; n counts them.
_FILL: Final[LiteralString] = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at,
    attempts, max_attempts, worker, errors,
    first_claimed_at, claimed_at, finished_at, result
)
SELECT
    kind.queue, 'pgqueue_bench.noop', '[]', '{}', kind.state, kind.priority,
    now() + kind.due + make_interval(secs => n / 1000.0), now() - interval '2 days',
    kind.attempts, 5, '', '[]',
    kind.ended, kind.ended, kind.ended + make_interval(secs => n / 1000.0),
    CASE WHEN kind.ended IS NOT NULL THEN 'null'::jsonb END
FROM generate_series(%(first)s::integer, %(last)s::integer) AS n
CROSS JOIN (
    VALUES
        ('default', 'succeeded', 0, interval '-1 day', 1, now() - interval '1 day'),
        ('default', 'scheduled', 100, interval '1 day', 0, NULL),
        ('unserved', 'queued', 0, interval '-1 day', 0, NULL)
) AS kind (queue, state, priority, due, attempts, ended)
"""


def run(lab: Lab) -> Report:
    """Fill one table, then measure in both by turns."""
    rates: dict[str, list[float]] = {EMPTY: [], FULL: []}
    claims: dict[str, list[float]] = {EMPTY: [], FULL: []}
    with ExitStack() as stack:
        connections = {
            name: stack.enter_context(lab.connection(alias))
            for name, alias in _ALIASES.items()
        }
        crews = {name: stack.enter_context(_up(lab, name)) for name in _ALIASES}
        with step("filling a table") as shown:
            fill(connections[FULL], lab["rows"], shown)
        for _ in lab.repeats:
            for name, connection in connections.items():
                speed, p95 = _measured(lab, connection, crews[name], name)
                rates[name].append(speed)
                claims[name].append(p95)
    return _report(
        {name: Figure.of("jobs/s", values) for name, values in rates.items()},
        {name: Figure.of("ms", values) for name, values in claims.items()},
    )


def _up(lab: Lab, name: str) -> AbstractContextManager[Workers]:
    return workers(
        lab, processes=lab["processes"], threads=lab["threads"], alias=_ALIASES[name]
    )


def fill(connection: Connection, rows: int, shown: Step) -> None:
    """Put in so many old jobs of each kind."""
    for first in range(1, rows + 1, _CHUNK):
        last = min(first + _CHUNK - 1, rows)
        connection.execute(_FILL, {"first": first, "last": last})
        shown.reach(last / rows)
    connection.execute("VACUUM ANALYZE pgqueue_job")


def _measured(
    lab: Lab, connection: Connection, crew: Workers, name: str
) -> tuple[float, float]:
    with step(name) as shown:
        seeded = seed(connection, [DEFAULT], Handler.parse("noop"), lab["jobs"])
        wait_until_finished(connection, seeded, shown, crew.check)
    speed = rate(connection, seeded)
    claims = [1_000 * seconds for _, seconds, _ in crew.claims()]
    _remove(connection, seeded, name)
    return speed, percentile(claims, 95)


def _remove(connection: Connection, seeded: Seeded, name: str) -> None:
    if name == EMPTY:
        clear(connection)
        return
    connection.execute(
        "DELETE FROM pgqueue_job WHERE id BETWEEN %s AND %s",
        [seeded.first, seeded.last],
    )
    connection.execute("VACUUM pgqueue_job")


def _report(rates: dict[str, Figure], claims: dict[str, Figure]) -> Report:
    part = rates[FULL].over(rates[EMPTY])
    times = claims[FULL].over(claims[EMPTY], "times")
    return Report(
        bench="growth",
        measured={
            "throughput, full table": rates[FULL],
            "claim p95, full table": claims[FULL],
            "throughput, part of the empty table's": part,
            "claim p95, times the empty table's": times,
        },
        floor={
            "throughput, empty table": rates[EMPTY],
            "claim p95, empty table": claims[EMPTY],
        },
        bars=(
            bars.GROWTH_RATE.judge(part.median),
            bars.GROWTH_CLAIM.judge(times.median),
        ),
    )
