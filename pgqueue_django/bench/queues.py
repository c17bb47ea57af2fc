"""``queues``: throughput of the same number of jobs in 1, 20 and 200 queues.

The same workers' options each time; a set of workers is started for each number of
queues and each repeat, since they would poll one another's tables. Jobs/s as
``throughput`` counts them.
"""

from typing import Final

from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import clear, rate, seed, wait_until_finished
from pgqueue_django.bench.workers import workers

COUNTS: Final = (1, 20, 200)


def run(lab: Lab) -> Report:
    """Measure each number of queues, by turns."""
    rates: dict[int, list[float]] = {count: [] for count in COUNTS}
    with lab.connection() as connection:
        for _ in lab.repeats:
            for count in COUNTS:
                rates[count].append(_measured(lab, connection, count))
    return _report({n: Figure.of("jobs/s", values) for n, values in rates.items()})


def _measured(lab: Lab, connection: Connection, count: int) -> float:
    queues = [f"queue{n}" for n in range(count)]
    clear(connection)
    with (
        workers(
            lab, processes=lab["processes"], threads=lab["threads"], queues=queues
        ) as crew,
        step(f"{count} queues") as shown,
    ):
        seeded = seed(connection, queues, Handler.parse("noop"), lab["jobs"])
        wait_until_finished(connection, seeded, shown, crew.check)
        return rate(connection, seeded)


def _report(rates: dict[int, Figure]) -> Report:
    one = rates[COUNTS[0]]
    parts = {n: rates[n].over(one, "of one") for n in COUNTS[1:]}
    return Report(
        bench="queues",
        measured={
            **{f"throughput, {n} queues": rates[n] for n in COUNTS[1:]},
            **{f"throughput, {n} queues of one's": part for n, part in parts.items()},
        },
        floor={"throughput, 1 queue": one},
        bars=(bars.QUEUES.judge(parts[COUNTS[-1]].median),),
    )
