"""The completers of a worker: one, or several where outcomes do not share commits."""

from collections.abc import Sequence

from pgqueue_django.attempts import Attempt
from pgqueue_django.outcomes import Outcome
from pgqueue_django.worker.completer import Completer

# Flushes of outcomes that may wait to be recorded before no more jobs are claimed.
_BACKLOG_FLUSHES = 5


class Lanes:
    """Shares outcomes out among completers, those of one job always to the same.

    Args:
        completers: One for each lane.
        flush_size: Most outcomes that each writes at once.
    """

    def __init__(self, completers: Sequence[Completer], flush_size: int) -> None:
        self.completers = tuple(completers)
        self._most = _BACKLOG_FLUSHES * flush_size * len(self.completers)

    @property
    def backlog(self) -> int:
        """How many outcomes are not recorded yet."""
        return sum(completer.backlog for completer in self.completers)

    @property
    def full(self) -> bool:
        """Whether so many outcomes wait that it is no time to claim more jobs."""
        return self.backlog > self._most

    def put(self, attempt: Attempt, outcome: Outcome) -> None:
        """Hand an outcome over; returns at once."""
        self.completers[attempt.id % len(self.completers)].put(attempt, outcome)

    def interrupt(self) -> None:
        """End the present waits for outcomes."""
        for completer in self.completers:
            completer.interrupt()
