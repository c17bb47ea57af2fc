"""``metrics``: the time of a scrape beside a million finished jobs, and beside none.

Two databases, each with the same hundred live jobs in ten queues; one has so many
finished ones besides. A scrape is what ``GET /metrics`` answers with, read anew from
the database over a connection of its own; each repeat is the median of twenty.
"""

from contextlib import ExitStack
from multiprocessing.connection import Connection as Pipe
from statistics import median
from time import perf_counter
from typing import Final, LiteralString

from pgqueue_django.bench import bars
from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.figures import Figure
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.processes import Crew, end_with
from pgqueue_django.bench.progress import Step, step
from pgqueue_django.bench.reports import Report
from pgqueue_django.bench.seeding import seed
from pgqueue_django.bench.sites import DEFAULT, SECOND

_LIVE: Final = 100
_QUEUES: Final = tuple(f"queue{n}" for n in range(10))
_SCRAPES: Final = 20
_CHUNK: Final = 50_000
_ALIASES: Final = {"empty table": DEFAULT, "full table": SECOND}
_EMPTY, _FULL = _ALIASES

_FILL: Final[LiteralString] = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at, attempts,
    max_attempts, worker, errors, first_claimed_at, claimed_at, finished_at, result
)
SELECT
    'queue' || n %% 10, 'pgqueue_bench.noop', '[]', '{}',
    (ARRAY['succeeded', 'succeeded', 'dead', 'cancelled'])[1 + n %% 4],
    0, now(), now(), 1, 5, '', '[]', now(), now(), now(), 'null'
FROM generate_series(%(first)s::integer, %(last)s::integer) AS n
"""


def run(lab: Lab) -> Report:
    """Fill one table, then scrape both by turns."""
    times: dict[str, list[float]] = {name: [] for name in _ALIASES}
    with ExitStack() as stack:
        for alias in _ALIASES.values():
            connection = stack.enter_context(lab.connection(alias))
            seed(connection, _QUEUES, Handler.parse("noop"), _LIVE)
        with step("filling a table") as shown:
            _fill(connection, lab["rows"], shown)
        scrapers = {
            name: stack.enter_context(Crew(lab.site.only(alias), _MAIN, [{}]))
            for name, alias in _ALIASES.items()
        }
        for _ in lab.repeats:
            for name, scraper in scrapers.items():
                times[name].append(_scrape(scraper))
    return _report({name: Figure.of("ms", found) for name, found in times.items()})


def _fill(connection: Connection, rows: int, shown: Step) -> None:
    for first in range(1, rows + 1, _CHUNK):
        last = min(first + _CHUNK - 1, rows)
        connection.execute(_FILL, {"first": first, "last": last})
        shown.reach(last / rows)
    connection.execute("VACUUM ANALYZE pgqueue_job")


def _scrape(scraper: Crew) -> float:
    (milliseconds,) = scraper.ask("scrape")
    return float(milliseconds)


_MAIN: Final = f"{__name__}:main"


def main(pipe: Pipe) -> None:
    """Scrape when told to, until the other end of the pipe is gone."""
    try:
        while pipe.recv() == "scrape":
            pipe.send(median(_one_scrape() for _ in range(_SCRAPES)))
    except (EOFError, OSError):
        end_with(pipe)


def _one_scrape() -> float:
    try:
        from pgqueue_django.contrib.prometheus import exposition
    except ImportError as error:
        raise BenchError(
            "metrics needs prometheus-client: install pgqueue-django[prometheus]"
        ) from error
    from pgqueue_django.stats.figures import latest_figures

    latest_figures.forget()
    begun = perf_counter()
    text, _ = exposition("")
    if b"pgqueue_up 1" not in text:
        raise BenchError("the database gave no figures in time")
    return 1_000 * (perf_counter() - begun)


def _report(times: dict[str, Figure]) -> Report:
    part = times[_FULL].over(times[_EMPTY], "times")
    return Report(
        bench="metrics",
        measured={
            "scrape, full table": times[_FULL],
            "scrape, times the empty table's": part,
        },
        floor={"scrape, empty table": times[_EMPTY]},
        bars=(bars.METRICS.judge(part.median),),
    )
