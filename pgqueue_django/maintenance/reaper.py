"""Brings back what crashed, stalled and cut-off workers held."""

from collections.abc import Callable
from random import uniform

from pgqueue_django import signals
from pgqueue_django.db import Session
from pgqueue_django.models import Job

_BATCH = 1_000


class Reaper:
    """Ends leases that have expired; each row's own lease alone decides.

    Args:
        session: Where statements run.
        interval: Time between two looks (seconds).
        on_due: Called with each queue in which a job became due.
    """

    name = "reaper"

    def __init__(
        self, session: Session, interval: float, on_due: Callable[[str], None]
    ) -> None:
        self._session = session
        self._jobs = Job.objects.on(session)
        self._interval = interval
        self._on_due = on_due

    def run_once(self) -> float:
        """Reap one batch; go on at once while there are more."""
        reaped = self._jobs.reap(_BATCH)
        for job in reaped:
            signals.lease_expired.send_robust(Reaper, reaped=job)
        for queue in {job.queue for job in reaped if job.state == "queued"}:
            self._on_due(queue)
        if len(reaped) == _BATCH:
            return 0.0
        # At random, so that the workers' looks spread over the interval.
        return self._interval * uniform(0.75, 1.0)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
