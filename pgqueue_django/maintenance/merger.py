"""Merges the counters' old minutes into hours, days and one sum of all before."""

from random import uniform
from typing import Final

from pgqueue_django.db import Session
from pgqueue_django.managers import counters

# Time between two looks (seconds). What is not merged yet costs its readers a little.
_INTERVAL: Final = 60.0

# A batch takes some ten milliseconds, for which the promoter on the same thread waits.
_BATCH: Final = 1_000

# Rest after a full batch (seconds).
_REST: Final = 0.1


class Merger:
    """Keeps the counters' table small; sums stay what they are.

    Args:
        session: Where statements run.
    """

    name = "merger"

    def __init__(self, session: Session) -> None:
        self._session = session

    def run_once(self) -> float:
        """Merge a batch of each grain; come back in a minute, or soon for more."""
        full = False
        for grain in counters.mergeable(self._session):
            merged = counters.merge(self._session, grain, limit=_BATCH)
            full = full or merged == _BATCH
        # At random, so that the workers' looks spread over the interval.
        return _REST if full else _INTERVAL * uniform(0.75, 1.25)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
