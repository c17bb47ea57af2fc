"""Hurt the network between workers and server: ``python -m bench.partition``.

A TCP proxy freezes connections (half-open), drops answers, delays and cuts, by turns
and for longer than a lease. Then workers get SIGTERM while nothing comes through. The
ledger's own connections go past the proxy.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from time import monotonic
from typing import Any

from bench.faults import TICK, FaultReport, Trial, main, parser, trial
from bench.ledger import LEDGER
from bench.proxy import Proxy, proxied
from pgqueue_django.bench.lab import Lab
from pgqueue_django.bench.sites import DEFAULT, Site

# Jobs go on within so long after connections froze, while new ones are possible, and
# after the network is back (seconds): the bound of a statement, of a connection, and
# the longest wait between two tries.
_NOTICED = 15.0

# What a stop may take beside the shutdown timeout (seconds): the process's own end.
_EXIT = 3.0

# The listener says something to itself after 8 s of silence, and waits 3 s.
_HEARD_AGAIN = 30.0

_LISTENERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'pgqueue listener %%'"
)


def run(lab: Lab) -> FaultReport:
    """Hurt the network until all jobs are done, stop workers in it; judge."""
    with through_proxy(lab) as (proxy, hurt), trial(hurt, **_settings(lab)) as run:
        flags = worker_flags(lab)
        run.fleet.keep(lab["processes"], *flags)
        run.enqueue_work(lab["jobs"], low=50, high=250)
        partitioner = Partitioner(run, proxy)
        run.wait(partitioner.act)
        proxy.heal()
        stops = [_stop_frozen(run, proxy, flags) for _ in range(lab["stops"])]
        listeners = _listeners_back(run)
        run.wait(run.fleet.look)
        run.fleet.stop()
        figures = {
            "faults": partitioner.counts,
            "recovery_seconds": partitioner.longest,
            "stop_seconds": [round(each, 2) for each in stops],
            "listeners_back_seconds": listeners,
        }
        return run.report(figures, tuple(_failures(lab, partitioner, stops, listeners)))


def worker_flags(lab: Lab) -> list[str]:
    """Return the flags of ``pgqueue_worker``."""
    return [f"--threads={lab['threads']}", f"--shutdown-timeout={lab['stop_within']}"]


def _settings(lab: Lab) -> dict[str, Any]:
    return {"LEASE_SECONDS": lab["lease"]}


@contextmanager
def through_proxy(lab: Lab) -> Iterator[tuple[Proxy, Lab]]:
    """Yield a proxy, and a lab whose workers reach the server through it."""
    direct = dict(lab.site.databases[DEFAULT])
    with proxied(direct) as (proxy, through):
        site = Site({DEFAULT: through, LEDGER: direct}, lab.site.pgqueue)
        yield proxy, replace(lab, site=site)


class Partitioner:
    """Does one thing to the network at a time, and lets it heal."""

    def __init__(self, run: Trial, proxy: Proxy) -> None:
        self._run = run
        self._proxy = proxy
        self._next = monotonic() + 0.5
        self._hurt = False
        self._away_for = 0.0
        self._left, self._moved = run.left(), monotonic()
        self._kinds = self._order()
        self.counts: dict[str, int] = {}
        self.longest = 0.0
        """Seconds in which no job finished at all, at most; those in which nothing
        came through are taken off, as only then nobody could go on."""

    def _order(self) -> Iterator[tuple[str, Callable[[], object]]]:
        proxy, lease = self._proxy, self._run.lab["lease"]
        kinds: list[tuple[str, Callable[[], object]]] = [
            ("freeze", proxy.freeze),
            ("mute", lambda: proxy.mute("")),
            ("delay", lambda: proxy.delay(lease / 20)),
            ("cut", proxy.cut),
            ("away", self._away),
        ]
        while True:
            self._run.random.shuffle(kinds)
            yield from kinds

    def _away(self) -> None:
        self._proxy.half_open.set()
        self._proxy.freeze()

    def act(self) -> None:
        """Hurt or heal, if it is time."""
        self._run.fleet.look()
        self._note_standstill()
        if monotonic() < self._next:
            return
        lease = self._run.lab["lease"]
        if self._hurt:
            self._proxy.heal()
        else:
            kind, hurt = next(self._kinds)
            hurt()
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self._away_for = 2 * lease if kind == "away" else 0.0
        self._hurt = not self._hurt
        self._next = monotonic() + lease * (2 if self._hurt else 1)

    def _note_standstill(self) -> None:
        left = self._run.left()
        if left != self._left:
            still = monotonic() - self._moved - self._away_for
            self.longest = max(self.longest, round(still, 2))
            self._left, self._moved = left, monotonic()


def _stop_frozen(run: Trial, proxy: Proxy, flags: list[str]) -> float:
    """Ask a busy worker to end while nothing comes through; return the seconds."""
    run.fleet.keep(run.lab["processes"], *flags)
    run.enqueue_work(50 * run.lab["processes"])
    before = run.left()
    run.wait(run.fleet.look, until_left=before - 1)
    proxy.half_open.set()
    proxy.freeze()
    pid = run.random.choice(run.fleet.alive)
    os.kill(pid, signal.SIGTERM)
    begun = monotonic()
    while pid in run.fleet.alive and monotonic() - begun < 60:
        Event().wait(TICK)
        run.fleet.look()
    proxy.heal()
    return monotonic() - begun


def _listeners_back(run: Trial) -> float | None:
    """Return the seconds until all workers listen; None when some never did."""
    begun = monotonic()
    while monotonic() - begun < _HEARD_AGAIN:
        if run.server.ask(_LISTENERS)[0][0] >= len(run.fleet.alive):
            return round(monotonic() - begun, 2)
        Event().wait(TICK)
    return None


def _failures(
    lab: Lab, partitioner: Partitioner, stops: list[float], listeners: float | None
) -> Iterator[str]:
    if partitioner.longest > _NOTICED:
        yield f"no job finished for {partitioner.longest} s"
    for took in stops:
        if took > lab["stop_within"] + _EXIT:
            yield f"a worker took {took:.1f} s to end in a frozen network"
    if listeners is None:
        yield "some listeners did not come back"


if __name__ == "__main__":
    given = parser(
        __doc__,
        jobs=2_000,
        processes=3,
        threads=4,
        lease=2.0,
        stops=5,
        stop_within=5,
    ).parse_args()
    main("partition", "bench.partition:run", given)
