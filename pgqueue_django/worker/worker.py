"""One worker process: starts the parts, watches them, and stops them in order."""

import os
import socket
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from threading import Event, current_thread, main_thread
from time import monotonic
from typing import Any
from uuid import uuid4

from django.db import DatabaseError, router

from pgqueue_django import signals
from pgqueue_django.db import WorkerSession, is_passing
from pgqueue_django.limits import WORKER_CHARS
from pgqueue_django.models import Job
from pgqueue_django.registry import registry
from pgqueue_django.worker.board import Board
from pgqueue_django.worker.exits import BROKEN, FORCED, OK, STUCK
from pgqueue_django.worker.loop import Recovery
from pgqueue_django.worker.memory import resident_megabytes
from pgqueue_django.worker.options import Queues, WorkerOptions
from pgqueue_django.worker.parts import Parts
from pgqueue_django.worker.stop_signals import stop_signals_go_to

# Time between two looks at signals, limits and the loops' health (seconds).
_TICK = 0.1

# After a second signal everything must be over within 2 s: the claim under way and the
# outcomes get so long each (seconds), the rest is left to the leases.
_HURRY = 0.6


class Worker:
    """Serves queues until it is told to stop.

    Args:
        queues: Names in order, with weights as in ``"a=3"`` if wanted.
        **options: See WorkerOptions.

    Raises:
        InvalidJob: An option is wrong; the error names it.
    """

    def __init__(
        self, queues: str | Iterable[str] = ("default",), **options: Any
    ) -> None:
        self.options = WorkerOptions(queues=Queues.parse(queues), **options)
        self._start = uuid4().hex[:12]
        self.identity = ""
        self.name_after(os.getpid())
        self._signals = 0
        self._stop = Event()
        self._parts: Parts | None = None
        self._exit_code = OK
        self.supervisor_pid: int | None = None
        """The parent without which the worker comes to an end, if it has one."""
        self.board: Board | None = None
        """What that parent looks at; to be made before the fork."""

    def name_after(self, pid: int) -> None:
        """Take an identity that no other start of a worker ever has, with this pid."""
        suffix = f"-{pid}-{self._start}"
        name = self.options.name or socket.gethostname()
        self.identity = name[: WORKER_CHARS - len(suffix)] + suffix

    def run(self) -> int:
        """Work until stopped, drained, or broken; blocks.

        Returns:
            0 after a clean end: all that ran was recorded, all that had not started
            went back. 1 when running jobs had to be released, at the shutdown timeout
            or at a second signal. 3 when a part could not go on. 4 when a handler could
        not be ended at its timeout: its thread is still there, so end the process.

        Raises:
            ProgrammingError: The job table is not there.

        Concurrency:
            In the main thread, SIGTERM and SIGINT are its own while it runs.
        """
        with self._signals_handled():
            if not self._database_ready():
                return OK
            self._report_broken_modules()
            self._parts = Parts(self.options, self.identity, self.board)
            try:
                self._parts.start()
                signals.worker_started.send_robust(
                    Worker,
                    identity=self.identity,
                    queues=str(self.options.queues),
                    threads=self.options.threads,
                )
                self._watch(self._parts)
            finally:
                self._shut_down(self._parts)
        signals.worker_stopped.send_robust(
            Worker, identity=self.identity, exit_code=self._exit_code
        )
        return self._exit_code

    def stop(self) -> None:
        """Ask for a clean end, from any thread; returns at once."""
        self._stop.set()

    def health(self) -> dict[str, float]:
        """Return the seconds since each part's last success."""
        return self._parts.ages() if self._parts else {}

    # --- start ------------------------------------------------------------------------

    def _signals_handled(self) -> AbstractContextManager[None]:
        if current_thread() is not main_thread():
            return nullcontext()
        return stop_signals_go_to(self.on_signal)

    def on_signal(self, _number: int, _frame: object) -> None:
        """Count a signal: the first asks for a clean end, a second for a quick one."""
        # Only a count: a handler may run in the middle of anything, locks included.
        self._signals += 1

    @property
    def _stopping(self) -> bool:
        return self._signals > 0 or self._stop.is_set() or self._orphaned

    @property
    def _orphaned(self) -> bool:
        return self.supervisor_pid is not None and os.getppid() != self.supervisor_pid

    def _database_ready(self) -> bool:
        """Wait for the database; False when told to stop meanwhile."""
        session = WorkerSession(
            self.options.database or router.db_for_write(Job),
            name=f"pgqueue {self.identity}",
        )
        recovery = Recovery("worker start")
        try:
            while not self._stopping:
                try:
                    Job.objects.on(session).next_due()
                except DatabaseError as error:
                    if not is_passing(error):
                        raise
                    self._pause(recovery.failed(error))
                else:
                    recovery.succeeded()
                    return True
            return False
        finally:
            session.close()

    def _pause(self, seconds: float) -> None:
        until = monotonic() + seconds
        while not self._stopping and (left := until - monotonic()) > 0:
            self._stop.wait(min(left, _TICK))

    def _report_broken_modules(self) -> None:
        for broken in registry.discover():
            signals.tasks_module_failed.send_robust(
                Worker, module=broken.module, failure=broken.failure
            )

    # --- watch ------------------------------------------------------------------------

    def _watch(self, parts: Parts) -> None:
        while not self._stopping:
            self._tick(parts)
            if broken := parts.broken():
                self._exit_code = BROKEN
                signals.worker_broken.send_robust(
                    Worker, identity=self.identity, part=broken
                )
                return
            if self._exit_code or parts.finished() or self._too_large():
                return
            self._stop.wait(_TICK)

    def _too_large(self) -> bool:
        most = self.options.max_rss
        return most is not None and resident_megabytes() > most

    def _tick(self, parts: Parts) -> None:
        parts.time_limits.enforce()
        if parts.give_up_stuck():
            self._exit_code = self._exit_code or STUCK
        parts.warn_of_blocked_loop()
        parts.abort_overdue_statements()
        parts.release(parts.pools.take_back_stalled())
        for attempt in parts.leases.give_up_overdue():
            signals.lease_lost.send_robust(Worker, attempt=attempt, verb="renew")

    # --- stop -------------------------------------------------------------------------

    def _shut_down(self, parts: Parts) -> None:
        try:
            self._finish(parts)
        finally:
            parts.stop()

    def _finish(self, parts: Parts) -> None:
        deadline = monotonic() + self.options.shutdown_timeout
        parts.stop_claiming(min(self.options.shutdown_timeout, _HURRY))
        parts.leases.ask_to_stop()
        while True:
            parts.release(parts.pools.take_back())
            if parts.quiet or monotonic() >= deadline or self._signals > 1:
                break
            self._tick(parts)
            self._stop_wait()
        if not parts.quiet:
            self._exit_code = self._exit_code or FORCED
            parts.release(parts.leases.all())
        self._record_rest(parts, max(deadline, monotonic() + _HURRY))
        self._tick(parts)

    def _record_rest(self, parts: Parts, deadline: float) -> None:
        hurried = monotonic() + _HURRY
        while parts.completer.backlog:
            if monotonic() >= (hurried if self._signals > 1 else deadline):
                self._exit_code = self._exit_code or FORCED
                return
            self._tick(parts)
            self._stop_wait()

    def _stop_wait(self) -> None:
        Event().wait(_TICK / 5)
