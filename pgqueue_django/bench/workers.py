"""Worker processes, and the one place that knows how to start them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Any, Final

from pgqueue_django.bench.connecting import Connection
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.handlers import Handler
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.processes import Crew
from pgqueue_django.bench.progress import step
from pgqueue_django.bench.seeding import clear, seed, wait_until_finished
from pgqueue_django.bench.sites import DEFAULT

_READY_WITHIN: Final = 60.0  # seconds
_WARM_UP_JOBS: Final = 300  # for each process

# A worker's connections say who they are; one that has claimed or listened is ready.
_READY: Final = """
SELECT count(*) FILTER (WHERE application_name LIKE 'pgqueue claimer%%'),
    count(*) FILTER (WHERE application_name LIKE 'pgqueue listener%%'
        AND query LIKE 'LISTEN%%')
FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle'
"""

Claim = tuple[float, float, int]
"""When a claim ended (monotonic), how long it took (seconds), how many jobs it took."""


class Workers(Crew):
    """Worker processes that serve the bench's queues."""

    def claims(self) -> list[Claim]:
        """Return the claims since the last call that took jobs, in order of time."""
        return sorted(claim for each in self.ask("claims") for claim in each)


@contextmanager
def workers(
    lab: Lab,
    *,
    processes: int,
    threads: int,
    queues: Sequence[str] = (DEFAULT,),
    claim: str = "skip-locked",
    alias: str = DEFAULT,
    settings: dict[str, Any] | None = None,
) -> Iterator[Workers]:
    """Start workers, let them run some jobs, and end them after the block.

    So statements are prepared and modules loaded. Empties the table.

    Args:
        lab: Where.
        processes: How many. Each is a worker of its own, with threads.
        threads: Of each.
        queues: What they serve.
        claim: ``skip-locked`` or ``for-update``.
        alias: Of the database.
        settings: Other entries in ``PGQUEUE``.

    Raises:
        BenchError: A worker did not get ready.
    """
    site = lab.site.only(alias).with_settings(**(settings or {}))
    given = {"queues": list(queues), "threads": threads, "claim": claim}
    with (
        Workers(site, _MAIN, [given] * processes) as crew,
        lab.connection(alias) as connection,
    ):
        _wait_until_ready(connection, crew, processes, listening=_listens(lab))
        _warm_up(connection, crew, queues, processes)
        yield crew


_MAIN: Final = "pgqueue_django.bench.worker_process:main"


def _listens(lab: Lab) -> bool:
    return bool(lab.site.pgqueue.get("NOTIFY", True))


def _wait_until_ready(
    connection: Connection, crew: Crew, processes: int, *, listening: bool
) -> None:
    deadline = monotonic() + _READY_WITHIN
    wanted = (processes, processes if listening else 0)
    while connection.execute(_READY).fetchone() != wanted:
        crew.check()
        if monotonic() > deadline:
            raise BenchError(f"workers are not ready after {_READY_WITHIN:.0f} s")
        Event().wait(0.02)


def _warm_up(
    connection: Connection, crew: Workers, queues: Sequence[str], processes: int
) -> None:
    handler = Handler.parse("noop")
    jobs = max(_WARM_UP_JOBS * processes, len(queues))
    with step("warm-up") as shown:
        seeded = seed(connection, queues, handler, jobs)
        wait_until_finished(connection, seeded, shown, crew.check)
    crew.claims()
    clear(connection)
