"""Kill random workers with SIGKILL: ``python -m bench.crash``.

With ``--supervised`` the workers are children of supervisors, and what is killed is by
turns a child, a supervisor without its children, and a supervisor with them. With an
``--interval`` of 2 s and more, jobs have to start again in time, too.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

import psutil

from bench.faults import FaultReport, Trial, main, parser, trial
from bench.judging import Books, Turn
from pgqueue_django.bench.lab import Lab

# How long lost jobs may take to start again after the kill (seconds), beside the lease
# where nobody is left who has seen it.
_SOON = 1.0

# Kills so far apart (seconds) leave enough workers alive for these bounds to hold.
_QUIET = 2.0

CHILD, SUPERVISOR, MACHINE, WORKER = "child", "supervisor", "machine", "worker"


@dataclass(frozen=True, slots=True)
class Kill:
    """What was killed, when by the server's clock, and which processes died."""

    kind: str
    at: datetime
    pids: frozenset[int]


def run(lab: Lab) -> FaultReport:
    """Kill until all jobs are done; judge."""
    with trial(lab, LEASE_SECONDS=lab["lease"]) as run:
        killer = _Killer(run)
        killer.keep()
        run.enqueue_work(lab["jobs"])
        begun = monotonic()
        run.wait(killer.act)
        took = monotonic() - begun
        run.fleet.stop()
        books = run.books()
        restarts = {
            kind: list(_restarts(books, [k for k in killer.kills if k.kind == kind]))
            for kind in {kill.kind for kill in killer.kills}
        }
        return run.report(
            _figures(killer, books, restarts, took),
            tuple(_too_late(restarts, lab)),
            hurt=killer.touched,
        )


class _Killer:
    """Kills one of the fleet whenever it is time, and starts others instead."""

    def __init__(self, run: Trial) -> None:
        self._run = run
        self._lab = run.lab
        self._next = monotonic() + self._lab["interval"]
        self._turn = 0
        self.kills: list[Kill] = []
        self.touched: set[int] = set()
        """Who died, and who lost their supervisor."""

    def keep(self) -> None:
        """Start who is missing."""
        flags = [f"--threads={self._lab['threads']}", "--shutdown-timeout=5"]
        processes: int = self._lab["processes"]
        if self._lab["supervised"]:
            half = max(1, processes // 2)
            self._run.fleet.keep(2, f"--processes={half}", *flags)
        else:
            self._run.fleet.keep(processes, *flags)

    def act(self) -> None:
        """Kill if it is time."""
        self.keep()
        if monotonic() < self._next:
            return
        self._next = monotonic() + self._lab["interval"]
        pid = self._run.random.choice(self._run.fleet.alive)
        at = self._run.server.now()
        kind, pids = self._chosen(pid) if self._lab["supervised"] else (WORKER, [pid])
        for each in pids:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self.touched.update(pids)
        self.kills.append(Kill(kind, at, frozenset(pids)))

    def _chosen(self, supervisor: int) -> tuple[str, list[int]]:
        children = [each.pid for each in psutil.Process(supervisor).children()]
        self._turn += 1
        kind = (CHILD, SUPERVISOR, MACHINE)[self._turn % 3]
        if kind == CHILD and children:
            return CHILD, [self._run.random.choice(children)]
        if kind == MACHINE:
            # First the one that could see the others die.
            return MACHINE, [supervisor, *children]
        self.touched.update(children)
        return SUPERVISOR, [supervisor]


def _figures(
    killer: _Killer,
    books: Books,
    restarts: dict[str, list[float]],
    took: float,
) -> dict[str, object]:
    killed = {pid for kill in killer.kills for pid in kill.pids}
    holders = {
        turn.worker
        for turns in books.turns.values()
        for turn in turns
        if turn.what.startswith("lease_expired")
    }
    every = [seconds for each in restarts.values() for seconds in each]
    return {
        "killed": len(killed),
        "killed_holding_a_job": sum(books.pids.get(each) in killed for each in holders),
        "recovery_seconds": max(every, default=None),
        "recovery_seconds_by_kill": {
            kind: max(each) for kind, each in sorted(restarts.items()) if each
        },
        "seconds_of_jobs": round(took, 2),
    }


def _restarts(books: Books, kills: list[Kill]) -> Iterator[float]:
    """Yield the seconds from a kill to the next claim of each job that it interrupted.

    Only of jobs that lost their first attempt: later ones wait, so that a job that
    kills its workers does not do so in a tight circle.
    """
    deaths = {pid: kill.at for kill in kills for pid in kill.pids}
    for turns in books.turns.values():
        by_attempt: dict[int, list[Turn]] = defaultdict(list)
        for turn in turns:
            by_attempt[turn.attempt].append(turn)
        lost = [t for t in by_attempt[1] if t.what == "lease_expired"]
        again = [t for t in by_attempt[2] if t.what == "claimed"]
        if lost and again:
            died = deaths.get(books.pids.get(lost[-1].worker, 0))
            if died:
                yield round((again[0].at - died).total_seconds(), 3)


def _too_late(restarts: dict[str, list[float]], lab: Lab) -> Iterator[str]:
    if lab["interval"] < _QUIET:
        return
    lease = lab["lease"]
    for kind, bound in (
        (CHILD, _SOON),
        (MACHINE, lease + _SOON),
        (WORKER, lease + _SOON),
    ):
        late = [s for s in restarts.get(kind, []) if s > bound]
        if late:
            yield f"{len(late)} jobs of a killed {kind} waited over {bound} s"


if __name__ == "__main__":
    given = parser(
        __doc__,
        jobs=1_000,
        processes=6,
        threads=1,
        lease=1.0,
        interval=0.3,
        supervised=False,
    ).parse_args()
    name = "crash_supervised" if given.supervised else "crash"
    if given.interval >= _QUIET:
        name = "recovery"
    main(name, "bench.crash:run", given)
