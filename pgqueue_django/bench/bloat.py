"""``bloat``: throughput and claim time while somebody's snapshot holds vacuum back.

A REPEATABLE READ transaction is open while the jobs are put in and run, so no row
version that they leave can go. Quarters are of the jobs, in the order in which they
finished (throughput) and were claimed (claim p95).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, LiteralString

from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure, percentile
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import Seeded, clear, seed, wait_until_finished
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.bench.workers import Claim, Workers, workers

QUARTERS: Final = 4

# Seconds from the first claim until each quarter of the jobs had finished.
_ENDS: Final[LiteralString] = """
SELECT array(
    SELECT extract(epoch FROM ended - begun)::float8 FROM unnest(ends) AS ended
)
FROM (
    SELECT min(first_claimed_at) AS begun,
        percentile_disc(ARRAY[0.25, 0.5, 0.75, 1.0])
            WITHIN GROUP (ORDER BY finished_at) AS ends
    FROM pgqueue_job
    WHERE id BETWEEN %s AND %s
) AS measured
"""

Quarters = list[float]
"""One number for each quarter."""


def run(lab: Lab) -> Report:
    """Run jobs under an old snapshot."""
    rates: list[Quarters] = []
    claims: list[Quarters] = []
    up = workers(lab, processes=lab["processes"], threads=lab["threads"])
    with lab.connection() as connection, up as crew:
        for n in lab.repeats:
            clear(connection)
            crew.claims()
            with _snapshot(lab):
                seeded = _run_jobs(lab, connection, crew, n + 1)
            rates.append(_rates(connection, seeded))
            claims.append(claim_p95s(crew.claims()))
    return _report(rates, claims)


@contextmanager
def _snapshot(lab: Lab) -> Iterator[None]:
    with lab.connection() as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # A real row version to look at: the snapshot exists from here on.
        holder.execute("SELECT count(*) FROM pgqueue_job")
        yield
        holder.execute("ROLLBACK")


def _run_jobs(lab: Lab, connection: Connection, crew: Workers, n: int) -> Seeded:
    with step(f"jobs, {n} of {lab['repeats']}") as shown:
        seeded = seed(connection, [DEFAULT], Handler.parse("noop"), lab["jobs"])
        wait_until_finished(connection, seeded, shown, crew.check)
    return seeded


def _rates(connection: Connection, seeded: Seeded) -> Quarters:
    row = connection.execute(_ENDS, [seeded.first, seeded.last]).fetchone()
    ends: list[float] = [0.0, *row[0]] if row else []
    each = seeded.jobs / QUARTERS
    return [each / max(ends[n + 1] - ends[n], 1e-3) for n in range(QUARTERS)]


def claim_p95s(claims: list[Claim]) -> Quarters:
    """Return the p95 of the claims' times (ms), by quarter of the jobs they took.

    Args:
        claims: In the order of time.
    """
    jobs = sum(taken for _, _, taken in claims)
    times: list[list[float]] = [[] for _ in range(QUARTERS)]
    before = 0
    for _, seconds, taken in claims:
        times[before * QUARTERS // jobs].append(1_000 * seconds)
        before += taken
    # Of a few large claims none may begin in a quarter: as fast as the one before.
    for n in range(1, QUARTERS):
        times[n] = times[n] or times[n - 1]
    return [percentile(each, 95) for each in times]


def _report(rates: list[Quarters], claims: list[Quarters]) -> Report:
    measured: dict[str, Figure] = {}
    for n in range(QUARTERS):
        name = f"quarter {n + 1}"
        measured[f"throughput, {name}"] = Figure.of("jobs/s", (r[n] for r in rates))
        measured[f"claim p95, {name}"] = Figure.of("ms", (c[n] for c in claims))
    part = measured["throughput, quarter 4"].over(
        measured["throughput, quarter 1"], "of first"
    )
    times = measured["claim p95, quarter 4"].over(
        measured["claim p95, quarter 1"], "times"
    )
    return Report(
        bench="bloat",
        measured={
            **measured,
            "throughput, last quarter of the first": part,
            "claim p95, last quarter over the first": times,
        },
        bars=(
            bars.BLOAT_RATE.judge(part.median),
            bars.BLOAT_CLAIM.judge(times.median),
        ),
    )
