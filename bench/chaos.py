"""One fault after the other in random order: ``python -m bench.chaos``.

For ``--minutes``, and until each has been, a producer enqueues, and each moment
something else happens: workers and supervisors are killed, stopped for longer than a
lease, or asked to end; backends are stopped; the network freezes, drops answers, slows
down or hangs up; the server is restarted ``fast``, ``immediate`` or by SIGKILL; the
primary is killed, its standby promoted, and the killed one made the new standby;
backends are terminated, the job table is locked and all connections are taken; jobs
come that break things, that hold Python's lock, or from producers whose clocks are
wrong, as are those of two workers in three. Then all goes well again, the backlog is
worked off, and the ledger judges.

The servers are the program's own: a primary and a synchronous standby, which workers
reach through a proxy and by one URL with both.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from threading import Event
from time import monotonic

import psutil

from bench import clusters, poison, skew
from bench.faults import FaultReport, Trial, main, parser, send, trial
from bench.partition import through_proxy
from bench.proxy import Proxy
from bench.restart import restart_home
from bench.stall import backends
from bench.storm import storm
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.lab import Lab

# Jobs that wait at most, and how many come at a time.
_BACKLOG = 600
_BATCH = 100

# Workers and supervisors that run at a time.
_PROGRAMS = 4

# Attempts of what has to succeed at last: faults come far thicker than in life.
_ATTEMPTS = 50

_HOUR = 3_600.0


def run(lab: Lab) -> FaultReport:
    """Do harm for the time that is given; judge."""
    with (
        through_proxy(lab) as (proxy, hurt),
        trial(hurt, clocks=(0, _HOUR, -_HOUR), LEASE_SECONDS=lab["lease"]) as run,
    ):
        chaos = Chaos(run, proxy)
        until = monotonic() + 60 * lab["minutes"]
        while monotonic() < until or not all(chaos.counts.values()):
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
        return run.report(figures, tuple(chaos.failures()), ends=poison.ends())


def order(names: Sequence[str], seed: int) -> Iterator[str]:
    """Yield names for ever, in random order, and none twice before each has been."""
    # By itself: what else is random depends on how long things take.
    chance = Random(seed)
    while True:
        yield from chance.sample(names, len(names))


class Chaos:
    """One fault after the other, and work all the time."""

    def __init__(self, run: Trial, proxy: Proxy) -> None:
        self._run = run
        self._proxy = proxy
        self._lease: float = run.lab["lease"]
        self._servers = clusters.of_lab()
        self._faults = self._chosen(run.lab["faults"])
        self._order = order(list(self._faults), run.lab["seed"])
        self._delayed = False
        self.counts = dict.fromkeys(self._faults, 0)

    def _chosen(self, names: str) -> dict[str, Callable[[], object]]:
        faults = {**self._of_workers(), **self._of_network(), **self._of_servers()}
        chosen = names.split(",") if names else list(faults)
        if unknown := set(chosen) - set(faults):
            raise BenchError(f"{unknown.pop()!r} is none of {', '.join(faults)}")
        return {name: faults[name] for name in chosen}

    def _of_workers(self) -> dict[str, Callable[[], object]]:
        return {
            "kill a worker": lambda: self._send(signal.SIGKILL, children=True),
            "kill a supervisor": lambda: self._send(signal.SIGKILL),
            "kill a machine": lambda: self._send(signal.SIGKILL, both=True),
            "end one": lambda: self._send(signal.SIGTERM),
            "stop a worker": lambda: self._stall(self._pids(children=True)),
            "stop a machine": lambda: self._stall(self._pids(both=True)),
            "hold the lock": self._hog,
            "poison": self._poison,
            "wrong clocks": self._produce_elsewhere,
        }

    def _of_network(self) -> dict[str, Callable[[], object]]:
        proxy = self._proxy
        return {
            "freeze": lambda: self._network(proxy.freeze),
            "drop answers": lambda: self._network(lambda: proxy.mute("")),
            "slow down": lambda: self._network(lambda: proxy.delay(self._lease / 20)),
            "hang up": proxy.cut,
            "nothing gets through": lambda: self._network(self._away),
        }

    def _of_servers(self) -> dict[str, Callable[[], object]]:
        return {
            "restart fast": lambda: self._restart("fast"),
            "restart immediate": lambda: self._restart("immediate"),
            "kill the server": lambda: self._restart("kill"),
            "stop backends": lambda: self._stall(backends(self._run)),
            "fail over": self._fail_over,
            "storm": self._storm,
        }

    def one(self) -> None:
        """Do the next thing, with some work before and after."""
        self.keep()
        self.feed()
        name = next(self._order)
        self._faults[name]()
        self.counts[name] += 1
        Event().wait(self._run.random.uniform(0.2, 1.5))

    def keep(self) -> None:
        """Start who is missing: by turns a worker, and a supervisor of two."""
        flags = [f"--threads={self._run.lab['threads']}", "--shutdown-timeout=5"]
        self._run.fleet.look()
        while len(self._run.fleet.alive) < _PROGRAMS:
            more = ["--processes=2"] if self._run.fleet.started % 2 else []
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

    def failures(self) -> Iterator[str]:
        """Say what was wrong, beside what the ledger knows."""
        if self._delayed:
            early, _ = skew.started_after(self._run, self._lease)
            if early < 0:
                yield f"a delayed job was {-early} s early"

    def _pids(self, *, children: bool = False, both: bool = False) -> list[int]:
        pid = self._run.random.choice(self._run.fleet.alive)
        found = [each.pid for each in psutil.Process(pid).children()]
        if both:
            return [pid, *found]
        return [self._run.random.choice(found)] if children and found else [pid]

    def _send(
        self, number: signal.Signals, *, children: bool = False, both: bool = False
    ) -> None:
        send(self._pids(children=children, both=both), number)

    def _stall(self, pids: list[int]) -> None:
        stopped = send(pids, signal.SIGSTOP)
        try:
            Event().wait(2 * self._lease)
        finally:
            send(stopped, signal.SIGCONT)

    def _network(self, hurt: Callable[[], object]) -> None:
        hurt()
        Event().wait(2 * self._lease)
        self._proxy.heal()

    def _away(self) -> None:
        self._proxy.half_open.set()
        self._proxy.freeze()

    def _restart(self, mode: str) -> None:
        with _connections_renewed():
            restart_home(self._servers.primary, mode)

    def _fail_over(self) -> None:
        # Who promotes a standby that lags behind loses what it lacks.
        self._servers.wait_for_standby()
        with _connections_renewed():
            self._servers.kill_primary()
            self._servers.promote()
        # Work goes on meanwhile, on one server.
        self._servers.rebuild()

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
        self._run.enqueue(HOG, [kwargs], max_attempts=_ATTEMPTS)

    def _poison(self) -> None:
        from bench.fault_tasks import TWISTED

        for task in poison.kinds():
            attempts = {"attempts": _ATTEMPTS} if task == TWISTED else {}
            poison.mix(self._run, task, good=_BATCH // 5, **attempts)

    def _produce_elsewhere(self) -> None:
        for shift in (_HOUR, -_HOUR):
            skew.produce_elsewhere(self._run, shift, _BATCH // 5, self._lease)
        self._delayed = True


@contextmanager
def _connections_renewed() -> Iterator[None]:
    """Let Django connect anew after the block, in which the server went away."""
    from django.db import connection

    try:
        yield
    finally:
        connection.close()


if __name__ == "__main__":
    given = parser(__doc__, minutes=10.0, threads=3, lease=2.0, faults="").parse_args()
    with clusters.pair(max_connections=120):
        main("chaos", "bench.chaos:run", given)
