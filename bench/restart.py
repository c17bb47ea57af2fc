"""Restart the server under load: ``python -m bench.restart``.

Rounds: ``fast``, ``immediate``, SIGKILL of the postmaster, three fast restarts in a
row, and one after which the server stays away for longer than a lease; each when 30 %
of its jobs are done, on a server of the program's own. With ``--restart-cmd`` the
configured server is used, and the command restarts it; ``{mode}`` in it becomes
``fast``, ``immediate``, ``kill`` or ``away``.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from argparse import Namespace
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import psycopg

from bench.faults import TICK, FaultReport, Trial, main, parser, trial
from pgqueue_django import devserver
from pgqueue_django.bench.connecting import connect
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.sites import DEFAULT
from pgqueue_django.devserver import lifecycle, paths, pidfile

ROUNDS = {
    "fast": ["fast"],
    "immediate": ["immediate"],
    "kill": ["kill"],
    "three in a row": ["fast", "fast", "fast"],
    "away": ["away"],
}

# How long the server stays down in the last round (seconds): longer than a lease.
_AWAY = 4.0

# The former rate is that of so long before; the rate is back when a window of so long
# has the share of it (seconds).
_BEFORE = 3.0
_WINDOW = 1.0
_SHARE = 0.95
_SOON = 2.0

# Jobs last for so long (milliseconds) that the threads are what limits the rate. Were
# they short, the machine would, and the rate be that of whatever else it does.
_MS = 200

# When the rate has settled again, for comparison (seconds after the server accepts).
_SETTLED = 2.0

# Between restarts in a row (seconds).
_APART = 3.0


@dataclass(frozen=True, slots=True)
class Outage:
    """When a restart was asked for, and when the server accepted connections again."""

    mode: str
    begun: datetime
    accepting: datetime
    seconds: float


def run(lab: Lab) -> FaultReport:
    """Restart in rounds; judge all of them."""
    with trial(lab, LEASE_SECONDS=lab["lease"]) as run:
        flags = [f"--threads={lab['threads']}", "--shutdown-timeout=10"]
        run.fleet.keep(lab["processes"], *flags)
        run.enqueue_work(lab["threads"] * lab["processes"])
        run.wait(run.fleet.look)
        chosen = lab["rounds"].split(",")
        rounds = {name: _round(run, ROUNDS[name]) for name in chosen}
        survivors = len(run.fleet.alive)
        run.fleet.stop()
        figures = _figures(run, rounds)
        slow = [
            f"{name}: 95 % of the former rate after {each['seconds_to_95_percent']} s"
            for name, each in figures.items()
            if not 0 <= each["seconds_to_95_percent"] <= _SOON
        ]
        return run.report(
            {
                "recovery_seconds": max(
                    each["seconds_to_95_percent"] for each in figures.values()
                ),
                "rounds": figures,
                "workers_replaced": lab["processes"] - survivors,
            },
            tuple(slow),
        )


Round = tuple[list[int], list[Outage]]


def _round(run: Trial, modes: Sequence[str]) -> Round:
    from django.db import connection

    connection.close()
    first = len(run.acknowledged)
    jobs: int = run.lab["jobs"]
    run.enqueue_work(jobs, low=_MS - 40, high=_MS + 40)
    run.wait(run.fleet.look, until_left=round(jobs * 0.7))
    outages = []
    for number, mode in enumerate(modes):
        if number:
            Event().wait(_APART)
        outages.append(_outage(run, mode))
    run.wait(run.fleet.look)
    return run.acknowledged[first:], outages


def _outage(run: Trial, mode: str) -> Outage:
    begun = run.server.now()
    restarting = Thread(target=_restarted, args=(run.lab, mode), daemon=True)
    since = monotonic()
    restarting.start()
    down = accepting = None
    while accepting is None:
        if monotonic() - since > 60:
            raise BenchError(f"the server does not come back ({mode})")
        Event().wait(TICK / 2)
        now = _server_time()
        if now is None:
            down = down or monotonic()
        elif down:
            accepting = now
    seconds = monotonic() - (down or since)
    restarting.join()
    return Outage(mode, begun, accepting, round(seconds, 3))


def _server_time() -> datetime | None:
    try:
        with connect(DEFAULT, connect_timeout=2) as connection:
            rows = connection.execute("SELECT clock_timestamp()").fetchall()
    except psycopg.Error:
        return None
    at: datetime = rows[0][0]
    return at


def _restarted(lab: Lab, mode: str) -> None:
    """Restart the server of a lab; return when it runs."""
    if lab["restart_cmd"]:
        command = lab["restart_cmd"].replace("{mode}", mode)
        subprocess.run(shlex.split(command), check=True)
        return
    restart_home(Path(lab["home"]), mode)


def restart_home(root: Path, mode: str) -> None:
    """Restart the server of a home, in one of the modes; return when it runs."""
    home = paths.find(root)
    if mode in {"fast", "away"}:
        devserver.stop(home.root)
        Event().wait(_AWAY if mode == "away" else 0.0)
    else:
        pid = pidfile.serving_pid(home)
        if pid is None:
            raise BenchError("there is no server to be killed")
        os.kill(pid, signal.SIGQUIT if mode == "immediate" else signal.SIGKILL)
        while lifecycle.is_running(home):
            Event().wait(TICK)
    devserver.ensure_running(home.root)


def _figures(run: Trial, rounds: dict[str, Round]) -> dict[str, dict[str, Any]]:
    books = run.books()
    done = sorted(
        turn.at
        for turns in books.turns.values()
        for turn in turns
        if turn.what == "succeeded"
    )
    return {
        name: {
            "down_seconds": max(outage.seconds for outage in outages),
            "seconds_to_95_percent": _seconds_to_rate(done, outages),
            "rate_before": round(_rate_before(done, outages), 1),
            "rate_after": round(
                _count(
                    done, outages[-1].accepting + timedelta(seconds=_SETTLED), _BEFORE
                )
                / _BEFORE,
                1,
            ),
            "extra_attempts": sum(books.rows[id_].attempts - 1 for id_ in ids),
        }
        for name, (ids, outages) in rounds.items()
    }


def _seconds_to_rate(done: list[datetime], outages: list[Outage]) -> float:
    """Return the seconds from the last accepting to the former rate; -1 is never."""
    accepting = outages[-1].accepting
    wanted = _SHARE * _WINDOW * _rate_before(done, outages)
    for tick in range(200):
        since = accepting + timedelta(seconds=tick / 20)
        if _count(done, since, _WINDOW) >= wanted:
            return tick / 20
    return -1.0


def _rate_before(done: list[datetime], outages: list[Outage]) -> float:
    """Return the jobs a second of the time before the first outage."""
    return _count(done, outages[0].begun, -_BEFORE) / _BEFORE


def _count(done: list[datetime], at: datetime, seconds: float) -> int:
    other = at + timedelta(seconds=seconds)
    return bisect_left(done, max(at, other)) - bisect_left(done, min(at, other))


@contextmanager
def _server_of_its_own(given: Namespace) -> Iterator[None]:
    """Start a server that nobody else uses, and remove it."""
    if given.restart_cmd:
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="pgqueue-restart-"))
    folder.chmod(0o755)
    given.home = str(folder / "home")
    try:
        os.environ["DATABASE_URL"] = devserver.ensure_running(given.home)
        yield
    finally:
        devserver.stop(given.home)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    given = parser(
        __doc__,
        jobs=1_000,
        processes=3,
        threads=4,
        lease=2.0,
        rounds=",".join(ROUNDS),
        restart_cmd="",
    ).parse_args()
    with _server_of_its_own(given):
        main("restart", "bench.restart:run", given)
