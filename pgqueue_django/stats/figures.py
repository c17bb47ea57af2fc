"""How many jobs there are and have been: one source of figures, read at one moment."""

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple

from django.db import Error

from pgqueue_django.db.views import one_view
from pgqueue_django.managers.counters import Total, totals
from pgqueue_django.managers.live import Live, live
from pgqueue_django.stats.jobs import database

# The time for one statement.
_STATEMENT_SECONDS: Final = 2.0

# Those who ask in quick succession share an answer; after a failure for less time.
REUSE_SECONDS: Final = 3.0
FAILURE_SECONDS: Final = 1.0


class Figures(NamedTuple):
    """What waits and runs now, and what has happened since ever."""

    live: list[Live]
    totals: list[Total]


def read_figures() -> Figures | None:
    """Return the figures, or None when the database does not give them in time."""
    try:
        with one_view(
            database(), name="pgqueue metrics", seconds=_STATEMENT_SECONDS
        ) as session:
            return Figures(live(session), totals(session))
    except Error:
        return None


class LatestFigures:
    """Gives figures that are a few seconds old at most, read once for all callers.

    Args:
        read: Reads them; None when that fails.
    """

    def __init__(self, read: Callable[[], Figures | None] = read_figures) -> None:
        self._read = read
        self._reading = Lock()
        self._latest: Figures | None = None
        self._good_until = 0.0

    def __call__(self) -> Figures | None:
        """Return the figures, or None when they cannot be had.

        Concurrency: safe from any thread; callers wait for the one that reads.
        """
        with self._reading:
            if monotonic() >= self._good_until:
                self._latest = self._read()
                good = FAILURE_SECONDS if self._latest is None else REUSE_SECONDS
                self._good_until = monotonic() + good
            return self._latest

    def forget(self) -> None:
        """Read anew for the next caller."""
        with self._reading:
            self._good_until = 0.0


latest_figures = LatestFigures()
