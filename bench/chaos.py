"""One fault after the other in random order, on one server: ``python -m bench.chaos``.

For ``--minutes`` a producer enqueues, and each moment something else happens: workers
and supervisors are killed, stopped for longer than a lease, or asked to end; the
network freezes, drops answers, slows down or hangs up; the server is restarted
``fast``, ``immediate`` or by SIGKILL; backends are terminated; the job table is locked
and all connections are taken; a handler holds Python's lock. Then all goes well again,
the backlog is worked off, and the ledger judges.
"""

import os
import signal
from collections.abc import Callable
from threading import Event
from time import monotonic

import psutil

from bench.faults import FaultReport, Trial, main, parser, trial
from bench.partition import through_proxy
from bench.proxy import Proxy
from bench.restart import restarted
from bench.storm import server_of_its_own, storm
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.lab import Lab

# Jobs that wait at most, and how many come at a time.
_BACKLOG = 600
_BATCH = 100


def run(lab: Lab) -> FaultReport:
    """Do harm for the time that is given; judge."""
    with (
        through_proxy(lab) as (proxy, hurt),
        trial(hurt, LEASE_SECONDS=lab["lease"]) as run,
    ):
        chaos = Chaos(run, proxy)
        until = monotonic() + 60 * lab["minutes"]
        while monotonic() < until:
            chaos.one()
        proxy.heal()
        calm = monotonic()
        left = chaos.feed()
        run.wait(chaos.keep, until_left=left - 1)
        recovery = round(monotonic() - calm, 2)
        run.wait(chaos.keep)
        run.fleet.stop()
        figures = {
            "recovery_seconds": recovery,
            "faults": chaos.counts,
            "exit_codes": chaos.exit_codes(),
        }
        return run.report(figures)


class Chaos:
    """One fault after the other, and work all the time."""

    def __init__(self, run: Trial, proxy: Proxy) -> None:
        self._run = run
        self._proxy = proxy
        self._lease: float = run.lab["lease"]
        self._faults: dict[str, Callable[[], object]] = {
            "kill a worker": lambda: self._send(signal.SIGKILL, children=True),
            "kill a supervisor": lambda: self._send(signal.SIGKILL),
            "kill a machine": lambda: self._send(signal.SIGKILL, both=True),
            "end one": lambda: self._send(signal.SIGTERM),
            "stop a worker": lambda: self._stall(children=True),
            "stop a machine": lambda: self._stall(both=True),
            "freeze": lambda: self._network(proxy.freeze),
            "drop answers": lambda: self._network(lambda: proxy.mute("")),
            "slow down": lambda: self._network(lambda: proxy.delay(self._lease / 20)),
            "hang up": proxy.cut,
            "nothing gets through": lambda: self._network(self._away),
            "restart fast": lambda: self._restart("fast"),
            "restart immediate": lambda: self._restart("immediate"),
            "kill the server": lambda: self._restart("kill"),
            "storm": self._storm,
            "hold the lock": self._hog,
        }
        self._waiting: list[str] = []
        self.counts = dict.fromkeys(self._faults, 0)

    def one(self) -> None:
        """Do the next thing, with some work before and after."""
        self.keep()
        self.feed()
        # In random order, and none twice before each has been.
        if not self._waiting:
            self._waiting = list(self._faults)
            self._run.random.shuffle(self._waiting)
        name = self._waiting.pop()
        self._faults[name]()
        self.counts[name] += 1
        Event().wait(self._run.random.uniform(0.2, 1.5))

    def keep(self) -> None:
        """Start who is missing: two workers, and two supervisors of two each."""
        flags = [f"--threads={self._run.lab['threads']}", "--shutdown-timeout=5"]
        self._run.fleet.look()
        for number in range(4 - len(self._run.fleet.alive)):
            more = ["--processes=2"] if number % 2 else []
            self._run.fleet.start(*flags, *more)

    def feed(self) -> int:
        """Enqueue if few wait; return how many do."""
        left = self._run.left()
        if left < _BACKLOG:
            self._run.enqueue_work(_BATCH)
            left += _BATCH
        return left

    def exit_codes(self) -> dict[int, int]:
        """Return how many have ended with each code; a negative one is a signal."""
        codes = list(self._run.fleet.codes.values())
        return {code: codes.count(code) for code in sorted(set(codes))}

    def _pids(self, *, children: bool = False, both: bool = False) -> list[int]:
        pid = self._run.random.choice(self._run.fleet.alive)
        found = [each.pid for each in psutil.Process(pid).children()]
        if both:
            return [pid, *found]
        return [self._run.random.choice(found)] if children and found else [pid]

    def _send(
        self, number: signal.Signals, *, children: bool = False, both: bool = False
    ) -> list[int]:
        pids = self._pids(children=children, both=both)
        _signal(pids, number)
        return pids

    def _stall(self, *, children: bool = False, both: bool = False) -> None:
        pids = self._send(signal.SIGSTOP, children=children, both=both)
        Event().wait(2 * self._lease)
        _signal(pids, signal.SIGCONT)

    def _network(self, hurt: Callable[[], object]) -> None:
        hurt()
        Event().wait(2 * self._lease)
        self._proxy.heal()

    def _away(self) -> None:
        self._proxy.half_open.set()
        self._proxy.freeze()

    def _restart(self, mode: str) -> None:
        from django.db import connection

        restarted(self._run.lab, mode)
        connection.close()

    def _storm(self) -> None:
        with storm(self._run, 2 * self._lease) as counts:
            while not counts["exhausted"]:
                Event().wait(0.1)
            Event().wait(self._lease)
        # Sessions that began in the storm have its limits for as long as they live.
        self._restart("fast")

    def _hog(self) -> None:
        from bench.fault_tasks import HOG

        kwargs = {"how": "regex", "seconds": 2 * self._lease}
        self._run.enqueue(HOG, [kwargs], max_attempts=50)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError as error:
            raise BenchError(f"may not signal {pid}") from error


if __name__ == "__main__":
    given = parser(
        __doc__, minutes=10.0, threads=3, lease=2.0, restart_cmd="", home=""
    ).parse_args()
    with server_of_its_own(max_connections=120) as home:
        given.home = str(home)
        main("chaos", "bench.chaos:run", given)
