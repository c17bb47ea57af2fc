"""Keeps the leases of running jobs, on a thread and a connection of its own."""

from collections.abc import Callable
from time import monotonic

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt, Write
from pgqueue_django.db import Session
from pgqueue_django.models import Job
from pgqueue_django.worker.leases import Leases

# How soon a lease is tried again whose row somebody has locked (seconds).
_BUSY_WAIT = 0.2


class Heartbeat:
    """Renews the leases that have grown old, all in one statement a queue.

    Args:
        session: The heartbeat's own.
        leases: What this process holds.
        lease: Length of a lease (seconds).
        interval: Age at which a lease is renewed (seconds).
        on_cancelled: Called with an attempt whose job was cancelled while it ran.
    """

    name = "heartbeat"

    def __init__(
        self,
        session: Session,
        leases: Leases,
        lease: float,
        interval: float,
        on_cancelled: Callable[[Attempt], None],
    ) -> None:
        self._session = session
        self._jobs = Job.objects.on(session)
        self._leases = leases
        self._lease = lease
        self._interval = interval
        self._on_cancelled = on_cancelled
        self._in_doubt = False

    def run_once(self) -> float:
        """Renew what is old; look again after a quarter of the interval."""
        if suspects := self._leases.take_suspects():
            self._lose(self._jobs.not_held(suspects))
        attempts = self._leases.older_than(self._interval)
        if not attempts:
            self._prove()
            return self._interval / 4
        since = monotonic()
        written = self._jobs.renew_many(map(Write, attempts), lease=self._lease)
        self._in_doubt = False
        self._leases.renewed(written.done, since)
        self._lose(written.lost)
        return min(_BUSY_WAIT, self._interval) if written.busy else self._interval / 4

    def close(self) -> None:
        """Close the connection."""
        self._in_doubt = True
        self._session.close()

    def _lose(self, attempts: list[Attempt]) -> None:
        # Where an outcome may have been recorded, the completer will find out.
        doubtful = set(self._leases.doubtful(attempts))
        lost = [attempt for attempt in attempts if attempt not in doubtful]
        if not lost:
            return
        cancelled = self._jobs.cancelled(attempt.id for attempt in lost)
        for attempt in self._leases.lose(lost):
            signals.lease_lost.send_robust(Heartbeat, attempt=attempt, verb="renew")
        for attempt in lost:
            if attempt.id in cancelled:
                self._on_cancelled(attempt)

    def _prove(self) -> None:
        # Having nothing to renew is no recovery: new jobs could not be kept either.
        if self._in_doubt:
            self._jobs.next_due()
            self._in_doubt = False
