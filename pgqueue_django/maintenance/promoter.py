"""Queues scheduled jobs at the moment they are due."""

from collections.abc import Callable
from math import inf
from time import monotonic

from pgqueue_django.db import Session
from pgqueue_django.models import Job
from pgqueue_django.pace import Pace

_BATCH = 1_000


class Promoter:
    """Sleeps until the next job is due, or until it is time to look again.

    Args:
        session: Where statements run.
        pace: When to look without a reason; jobs that are enqueued with a shorter delay
            are announced by a hint.
        on_due: Called with each queue in which a job became due.
    """

    name = "promoter"

    def __init__(
        self, session: Session, pace: Pace, on_due: Callable[[str], None]
    ) -> None:
        self._session = session
        self._jobs = Job.objects.on(session)
        self._pace = pace
        self._on_due = on_due
        self._due_at = inf
        self.caught_up = False
        """Whether the last look found that nothing was overdue."""

    def run_once(self) -> float:
        """Promote what is due; wait exactly until the next is."""
        self._pace.looked()
        if monotonic() >= self._due_at:
            for queue in self._jobs.promote(_BATCH):
                self._on_due(queue)
        wait = self._jobs.next_due()
        self.caught_up = wait is None or wait > 0
        self._due_at = inf if wait is None else monotonic() + wait
        return min(max(0.0, self._due_at - monotonic()), self._pace.left)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
