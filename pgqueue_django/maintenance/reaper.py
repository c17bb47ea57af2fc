"""Brings back what crashed, stalled and cut-off workers held."""

from collections.abc import Callable
from random import uniform

from pgqueue_django import signals
from pgqueue_django.db import WorkerSession
from pgqueue_django.models import Job

_BATCH = 1_000

# How soon to look again when somebody has locked all rows whose leases have ended
# (seconds).
_LOCKED_WAIT = 0.2

# So long after a lease has ended, at most, the workers look for it, each at a moment of
# its own (seconds).
_SPREAD = 0.1

# While the server was away nobody could renew a lease. Its holders get so long after
# that (seconds), which is twice the longest wait between their tries to connect. A
# server that is never well for so long gets as many graces, and then no more.
_GRACE = 2.0
_GRACES = 3


class Reaper:
    """Ends leases that have expired; each row's own lease alone decides.

    It sleeps until the first lease that it has seen ends. After an outage of the server
    it leaves leases a while longer, so that the outage itself costs nobody a job.

    Args:
        session: Where statements run.
        interval: Longest time between two looks (seconds). No longer than a lease, or
            one that is made and ends meanwhile is noticed late.
        on_due: Called with each queue in which a job became due.
    """

    name = "reaper"

    def __init__(
        self, session: WorkerSession, interval: float, on_due: Callable[[str], None]
    ) -> None:
        self._session = session
        self._jobs = Job.objects.on(session)
        self._interval = interval
        self._on_due = on_due
        self._graces = 0

    def run_once(self) -> float:
        """Reap one batch, if a lease has ended; wait until the next one does."""
        wait = self._jobs.next_expiry()
        if wait is not None and wait <= 0:
            if (grace := self._grace()) > 0:
                return grace
            return 0.0 if self._reap() else _LOCKED_WAIT
        longest = self._interval * uniform(0.75, 1.0)
        return longest if wait is None else min(longest, wait + uniform(0, _SPREAD))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _grace(self) -> float:
        """Return how long leases that have ended are left alone (seconds)."""
        left = _GRACE - self._session.calm_for()
        if left <= 0:
            self._graces = 0
        elif self._graces < _GRACES:
            self._graces += 1
            return left
        return 0.0

    def _reap(self) -> int:
        reaped = self._jobs.reap(_BATCH)
        for job in reaped:
            signals.lease_expired.send_robust(Reaper, reaped=job)
        for queue in {job.queue for job in reaped if job.state == "queued"}:
            self._on_due(queue)
        return len(reaped)
