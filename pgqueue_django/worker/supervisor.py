"""Several worker processes under one that starts, watches and replaces them."""

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from time import monotonic

from django.db import DatabaseError

from pgqueue_django import signals
from pgqueue_django.backoff import Backoff
from pgqueue_django.db import Session
from pgqueue_django.models import Job
from pgqueue_django.worker.aftermath import Recorder
from pgqueue_django.worker.board import Board
from pgqueue_django.worker.exits import BROKEN, OK, STUCK, leave
from pgqueue_django.worker.guard import Finding, Guard
from pgqueue_django.worker.stop_signals import STOP_SIGNALS, stop_signals_go_to
from pgqueue_django.worker.worker import Worker

PROCESSES_MAX = 100

# Time between two looks at the children and at signals (seconds).
_TICK = 0.05

# A child that lived for so long was well (seconds); one that dies sooner is started
# again after a wait that grows.
_WELL_AFTER = 10.0
_BACKOFF = Backoff(base=0.2, factor=2.0, cap=10.0, jitter=0.5)

# How much longer than the shutdown timeout a child may take to end (seconds).
_PATIENCE = 5.0

# How often the jobs of a dead child are tried to be given up, a tick apart: after that
# their leases say it.
_GIVE_UP_TRIES = 20

# How often they are looked for: the server may still be at the child's last statement,
# which claims jobs or has their rows locked.
_LOOKS = 10


@dataclass(slots=True)
class _Child:
    pid: int
    identity: str
    guard: Guard
    started: float = field(default_factory=monotonic)
    finding: Finding | None = None
    """Why it was killed, if a handler of its could not be ended otherwise."""


@dataclass(slots=True)
class _Abandoned:
    """What is left to do for the jobs of a dead child."""

    looks: int
    recorder: Recorder | None = None
    tries: int = _GIVE_UP_TRIES


class Supervisor:
    """Forks workers, and keeps as many of them alive.

    To be run in the main thread of a process that has started no other thread.

    Args:
        processes: How many workers.
        make_worker: Makes a worker; called in this process, before each fork.
        session: The supervisor's own.
        replace: Whether a child that ends by itself is followed by another.
        shutdown_timeout: The workers' (seconds).
    """

    def __init__(
        self,
        processes: int,
        make_worker: Callable[[], Worker],
        session: Session,
        *,
        replace: bool,
        shutdown_timeout: float,
    ) -> None:
        self._make_worker = make_worker
        self._session = session
        self._jobs = Job.objects.on(session)
        self._replace = replace
        self._shutdown_timeout = shutdown_timeout
        self._children: dict[int, _Child] = {}
        self._starts: list[float] = [0.0] * processes
        self._early_deaths = 0
        self._abandoned: dict[str, _Abandoned] = {}
        self._signals: list[int] = []
        self._deadline: float | None = None
        self._exit_code = OK

    def run(self) -> int:
        """Work until stopped, or until all children have ended for good; blocks.

        Returns:
            0 when all children ended well, else the worst of their codes.
        """
        with stop_signals_go_to(self._on_signal):
            while self._children or self._starts or self._abandoned:
                self._start_due()
                self._pass_signals_on()
                self._kill_silent()
                self._bury_dead()
                self._give_abandoned_up()
                self._kill_late()
                Event().wait(_TICK)
        self._session.close()
        return self._exit_code

    # --- signals --------------------------------------------------------------------

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals.append(number)

    def _pass_signals_on(self) -> None:
        # One at a look: two that come at once would be one to a child.
        if not self._signals:
            return
        self._signals.pop(0)
        self._starts.clear()
        self._replace = False
        self._deadline = monotonic() + self._shutdown_timeout + _PATIENCE
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)

    # --- children -------------------------------------------------------------------

    def _start_due(self) -> None:
        now = monotonic()
        due = [at for at in self._starts if at <= now]
        self._starts = [at for at in self._starts if at > now]
        for _ in due:
            self._start()

    def _start(self) -> None:
        worker = self._make_worker()
        worker.supervisor_pid = os.getpid()
        worker.board = Board()
        # Blocked until the child has its own handlers, so that no signal is lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            _live(worker)
        worker.name_after(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        self._children[pid] = _Child(pid, worker.identity, Guard(pid, worker.board))

    def _kill_silent(self) -> None:
        """End what has a handler past its limit, and cannot end that itself."""
        for child in self._children.values():
            if child.finding is None and (finding := child.guard.look()):
                child.finding = finding
                os.kill(child.pid, signal.SIGKILL)

    def _bury_dead(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._bury(self._children.pop(pid), os.waitstatus_to_exitcode(status))

    def _bury(self, child: _Child, code: int) -> None:
        if code != OK:
            self._abandon(child)
            signals.child_died.send_robust(
                Supervisor, pid=child.pid, identity=child.identity, exit_code=code
            )
        if child.finding:
            code = STUCK
        if self._replace or (code == STUCK and self._deadline is None):
            self._starts.append(monotonic() + self._wait_after(child, code))
        elif code != OK:
            self._exit_code = max(self._exit_code, code if code > 0 else BROKEN)

    def _abandon(self, child: _Child) -> None:
        left = _Abandoned(_LOOKS)
        if child.finding:
            left.recorder = Recorder(self._session, child.identity, child.finding)
        self._abandoned[child.identity] = left

    def _wait_after(self, child: _Child, code: int) -> float:
        if code in (OK, STUCK) or monotonic() - child.started >= _WELL_AFTER:
            self._early_deaths = 0
            return 0.0
        self._early_deaths += 1
        # The first goes free: somebody killed it, and the others are well.
        return (
            0.0 if self._early_deaths == 1 else _BACKOFF.delay(self._early_deaths - 1)
        )

    def _give_abandoned_up(self) -> None:
        """End at once the leases of children that are surely dead."""
        for identity, left in list(self._abandoned.items()):
            if left.recorder and not left.recorder.ended():
                continue
            left.tries -= 1
            try:
                reaped = self._jobs.reap_dead_worker(identity)
            except DatabaseError:
                self._session.close()
            else:
                left.looks -= 1
                for job in reaped:
                    signals.lease_expired.send_robust(Supervisor, reaped=job)
            if not left.looks or not left.tries:
                del self._abandoned[identity]

    def _kill_late(self) -> None:
        if self._deadline is not None and monotonic() > self._deadline:
            for pid in self._children:
                os.kill(pid, signal.SIGKILL)


def _live(worker: Worker) -> None:
    """Be the child: work, and end without anything of the parent's."""
    code = BROKEN
    try:
        # Out of the terminal's foreground group: of a Ctrl-C only the parent hears.
        os.setpgid(0, 0)
        worker.name_after(os.getpid())
        for number in STOP_SIGNALS:
            signal.signal(number, worker.on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        code = worker.run()
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run here
        traceback.print_exc()
    finally:
        leave(code)
