"""What waits and what runs, now."""

from typing import NamedTuple

from pgqueue_django.db import Session
from pgqueue_django.sql import live as sql


class Live(NamedTuple):
    """A queue's jobs in one unfinished state.

    ``expired`` are those of them under a lease that has ended. ``oldest_due`` is for
    how many seconds one of them could have run; None where none can.
    """

    queue: str
    state: str
    jobs: int
    expired: int
    oldest_due: float | None


def live(session: Session) -> list[Live]:
    """Return all queues' unfinished states that have jobs."""
    return [Live(*row) for row in session.rows(sql.LIVE, {})]
