"""Make the server hard to live with: ``python -m bench.storm``.

All at once: a random backend of the workers is terminated every 100 ms; the role's
statements, waits for locks and idle transactions end after 1 s; by turns
``LOCK TABLE pgqueue_job`` is held for 5 s, and every connection that the server has
left is taken. The server must be the program's own, as others would suffer too.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import psycopg

from bench.clusters import started
from bench.faults import FaultReport, Trial, main, parser, trial
from pgqueue_django import devserver
from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.sites import DEFAULT

_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND application_name LIKE 'pgqueue %' AND application_name <> 'pgqueue bench'"
    " ORDER BY random() LIMIT 1"
)

# For the role that everybody has here. The program's own sessions say otherwise.
_TIMEOUTS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
)
_LIMIT = "1s"
_UNLIMITED = " ".join(f"-c {name}=0" for name in _TIMEOUTS)

# Work goes on within so long after the storm (seconds).
_CALM = 10.0


def run(lab: Lab) -> FaultReport:
    """Rage until all jobs are done; judge."""
    with trial(lab, LEASE_SECONDS=lab["lease"]) as run:
        run.fleet.keep(lab["processes"], f"--threads={lab['threads']}")
        pids = set(run.fleet.alive)
        run.enqueue_work(lab["jobs"])
        half = lab["jobs"] // 2
        with storm(run, lab["lock"]) as counts:
            run.wait(run.fleet.look, until_left=half)
            # At least one lock and one time without connections.
            while min(counts["locked"], counts["exhausted"]) < 1:
                Event().wait(0.1)
        calm, left = monotonic(), run.left()
        run.wait(run.fleet.look, until_left=max(0, left - 1))
        recovery = round(monotonic() - calm, 2)
        run.wait(run.fleet.look)
        replaced = len(pids - set(run.fleet.alive))
        run.fleet.stop()
        failed = ["a worker ended"] if replaced else []
        failed += [f"work goes on after {recovery} s"] if recovery > _CALM else []
        figures = {
            "recovery_seconds": recovery,
            "storm": counts,
            "workers_replaced": replaced,
        }
        return run.report(figures, tuple(failed))


@contextmanager
def storm(run: Trial, lock: float) -> Iterator[dict[str, int]]:
    """Rage during the block.

    Args:
        run: The workers that suffer.
        lock: How long the job table is locked at a time, and as long all connections
            are taken (seconds).

    Yields:
        How often each has happened, by name.
    """
    counts = {"terminated": 0, "locked": 0, "exhausted": 0}
    over = Event()
    _limit(_LIMIT)
    threads = [
        Thread(target=_terminate, args=(over, counts), daemon=True),
        Thread(target=_lock_and_exhaust, args=(over, counts, lock), daemon=True),
    ]
    try:
        for thread in threads:
            thread.start()
        yield counts
    finally:
        over.set()
        for thread in threads:
            thread.join()
        _limit("DEFAULT")
        run.server.close()


def _unlimited() -> Connection:
    return connect(DEFAULT, options=_UNLIMITED)


def _limit(value: str) -> None:
    with _unlimited() as connection:
        for name in _TIMEOUTS:
            change = f"ALTER ROLE CURRENT_USER SET {name} TO "
            text = value if value == "DEFAULT" else f"'{value}'"
            connection.execute((change + text).encode())


def _terminate(over: Event, counts: dict[str, int]) -> None:
    with _unlimited() as connection:
        while not over.wait(0.1):
            found = connection.execute(_TERMINATE.encode()).fetchall()
            counts["terminated"] += len(found)


def _lock_and_exhaust(over: Event, counts: dict[str, int], seconds: float) -> None:
    while not over.wait(1.0):
        with _unlimited() as connection, connection.transaction():
            connection.execute("LOCK TABLE pgqueue_job")
            counts["locked"] += 1
            over.wait(seconds)
        if not over.wait(1.0):
            with _exhausted():
                counts["exhausted"] += 1
                over.wait(seconds)


@contextmanager
def _exhausted() -> Iterator[None]:
    """Take the connections that the server has left."""
    with ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(_unlimited())
        yield


@contextmanager
def _server_of_its_own(max_connections: int) -> Iterator[None]:
    """Start a server that nobody else uses; settings find it."""
    folder = Path(tempfile.mkdtemp(prefix="pgqueue-storm-"))
    folder.chmod(0o755)
    home = folder / "home"
    try:
        os.environ["DATABASE_URL"] = started(home, max_connections=max_connections)
        yield
    finally:
        devserver.stop(home)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    given = parser(
        __doc__, jobs=3_000, processes=3, threads=4, lease=3.0, lock=5.0
    ).parse_args()
    with _server_of_its_own(max_connections=60):
        main("storm", "bench.storm:run", given)
