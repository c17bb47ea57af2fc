"""Stop processes for longer than a lease: ``python -m bench.stall``.

By turns SIGSTOP and, later, SIGCONT: a worker, a supervisor, a supervisor with its
children, and the server's backends of a worker (where the server is on this machine
and may be signalled). Some handlers hold the interpreter's lock meanwhile, so that the
worker's own heartbeat cannot run.
"""

import signal
from collections.abc import Iterator
from threading import Event
from time import monotonic

import psutil

from bench.faults import FaultReport, Trial, main, parser, send, trial
from pgqueue_django.bench.environment import is_local
from pgqueue_django.bench.lab import Lab

WORKER, SUPERVISOR, MACHINE, BACKENDS = "worker", "supervisor", "machine", "backends"

_BACKENDS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE %s AND pid <> pg_backend_pid()"
)

# Jobs that hold the lock, of all (one in so many).
_HOGS = 500


def run(lab: Lab) -> FaultReport:
    """Stall until all jobs are done; judge."""
    from bench.fault_tasks import HOG

    with trial(lab, LEASE_SECONDS=lab["lease"]) as run:
        staller = _Staller(run)
        staller.keep()
        run.enqueue_work(lab["jobs"], low=50, high=250)
        hogs = max(1, lab["jobs"] // _HOGS)
        run.enqueue(
            HOG,
            [{"how": how, "seconds": 2 * lab["lease"]} for how in ("regex", "power")]
            * hogs,
            max_attempts=50,
        )
        try:
            run.wait(staller.act)
        finally:
            staller.go_on()
        run.fleet.stop()
        refused = run.log_tail(None).count("lease lost")
        figures = {
            "stalled": staller.counts,
            "recovery_seconds": staller.longest,
            "lease_losses_noticed": refused,
        }
        return run.report(figures)


class _Staller:
    """Stops one of the fleet at a time, for longer than the lease."""

    def __init__(self, run: Trial) -> None:
        self._run = run
        self._lab = run.lab
        self._stopped: list[int] = []
        self._next = monotonic() + 0.5
        self._kinds = self._order()
        self.counts = dict.fromkeys((WORKER, SUPERVISOR, MACHINE), 0)
        self.longest: float | None = None
        """Seconds from SIGCONT until the next job finished, at most."""
        self._resumed: float | None = None
        self._left = 0

    def _order(self) -> Iterator[str]:
        kinds = [WORKER, SUPERVISOR, MACHINE]
        if is_local(self._run.server.opened()):
            kinds.append(BACKENDS)
        while True:
            yield from kinds

    def keep(self) -> None:
        """Start who is missing: two supervisors, and two workers of their own."""
        flags = [f"--threads={self._lab['threads']}", "--shutdown-timeout=10"]
        self._run.fleet.look()
        missing = 4 - len(self._run.fleet.alive)
        for number in range(missing):
            self._run.fleet.start(*flags, *(["--processes=2"] if number % 2 else []))

    def act(self) -> None:
        """Stop or let go on, if it is time."""
        self._note_recovery()
        if monotonic() < self._next:
            return
        if self._stopped:
            self.go_on()
            self._next = monotonic() + 0.5
            return
        kind = next(self._kinds)
        self._stopped = send(self._chosen(kind), signal.SIGSTOP)
        self.counts[kind] = self.counts.get(kind, 0) + bool(self._stopped)
        self._next = monotonic() + 2 * self._lab["lease"]
        if kind == BACKENDS:
            # One of them may hold what every session needs: nobody asks meanwhile.
            Event().wait(2 * self._lab["lease"])

    def go_on(self) -> None:
        """Let all go on."""
        send(self._stopped, signal.SIGCONT)
        self._stopped = []
        self._resumed, self._left = monotonic(), self._run.left()

    def _chosen(self, kind: str) -> list[int]:
        pid = self._run.random.choice(self._run.fleet.alive)
        children = [each.pid for each in psutil.Process(pid).children()]
        match kind:
            case "worker":
                return [self._run.random.choice(children or [pid])]
            case "supervisor":
                return [pid]
            case "machine":
                return [pid, *children]
        return backends(self._run)

    def _note_recovery(self) -> None:
        if self._resumed is not None and self._run.left() < self._left:
            took = round(monotonic() - self._resumed, 3)
            self.longest = max(self.longest or 0.0, took)
            self._resumed = None


def backends(run: Trial) -> list[int]:
    """Choose a quarter of the workers' backends."""
    pids = [row[0] for row in run.server.ask(_BACKENDS, "pgqueue %")]
    run.random.shuffle(pids)
    return pids[: max(1, len(pids) // 4)]


if __name__ == "__main__":
    given = parser(__doc__, jobs=2_500, threads=2, lease=1.0).parse_args()
    main("stall", "bench.stall:run", given)
