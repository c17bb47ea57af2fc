"""Records what became of the jobs of a worker that its supervisor had to kill."""

import os
import signal
import traceback
from threading import Event
from time import monotonic
from typing import Final

from django.db import DatabaseError

from pgqueue_django import signals
from pgqueue_django.db import Session
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.models import Job
from pgqueue_django.registry import registry
from pgqueue_django.worker.completer import Completer
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.exits import BROKEN, OK, leave
from pgqueue_django.worker.guard import Finding
from pgqueue_django.worker.leases import Leases
from pgqueue_django.worker.timeouts import TimeLimits

# How long it may take (seconds), and the wait between two tries. What is not recorded
# by then was lost with its worker.
_PATIENCE: Final = 10.0
_RETRY: Final = 0.2


class Recorder:
    """A process that records them, and ends.

    The project's tasks say what follows a timeout. They are imported there, so that no
    code of theirs runs in the supervisor.

    Args:
        session: The supervisor's, which this process gets a new connection for.
        identity: The dead worker's.
        finding: Why it was killed.
    """

    def __init__(self, session: Session, identity: str, finding: Finding) -> None:
        # Parent and child must not share a connection: each opens its own.
        session.close()
        self._until = monotonic() + 2 * _PATIENCE
        self._pid = os.fork()
        if self._pid == 0:
            _live(session, identity, finding)
        self._ended = False

    def ended(self) -> bool:
        """Tell whether it has ended; one that takes far too long is killed."""
        if not self._ended and monotonic() > self._until:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._ended = True
        self._ended = self._ended or os.waitpid(self._pid, os.WNOHANG)[0] != 0
        return self._ended


def _live(session: Session, identity: str, finding: Finding) -> None:
    """Be the child: record, and end without anything of the parent's."""
    code = BROKEN
    try:
        record(session, identity, finding)
        code = OK
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run here
        traceback.print_exc()
    finally:
        leave(code)


def record(session: Session, identity: str, finding: Finding) -> None:
    """Give what was innocent back, and record what was overdue as timed out.

    Raises:
        DatabaseError: The database could not be reached for all of the time.
    """
    until = monotonic() + _PATIENCE
    while True:
        try:
            _record(Job.objects.on(session), session, identity, finding)
        except DatabaseError:
            session.close()
            if monotonic() > until:
                raise
            Event().wait(_RETRY)
        else:
            session.close()
            return


def _record(
    jobs: JobManager, session: Session, identity: str, finding: Finding
) -> None:
    if finding.proven:
        overdue = [limit.id for limit in finding.overdue]
        jobs.release_dead_worker(identity, besides=overdue)
    # What cannot be imported was reported by the worker.
    registry.discover()
    found = [jobs.find_held(limit.id, limit.token) for limit in finding.overdue]
    attempts = [attempt for attempt in found if attempt]
    leases = Leases(_PATIENCE)
    leases.add(attempts, monotonic())
    completer = Completer(
        session,
        leases,
        identity=identity,
        flush_size=max(1, len(attempts)),
        flush_seconds=0.0,
        on_waiting=lambda _queue, _delay: None,
    )
    executor = Executor(TimeLimits())
    for attempt in attempts:
        completer.put(attempt, executor.give_up(attempt))
        signals.handler_stuck.send_robust(Recorder, attempt=attempt)
    while completer.backlog:
        completer.run_once()
