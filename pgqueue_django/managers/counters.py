"""What has happened to jobs, in figures that outlive the jobs."""

from typing import NamedTuple

from pgqueue_django.db import Session
from pgqueue_django.sql import counters as sql


class Total(NamedTuple):
    """How often something happened to jobs of a task in a queue, since ever.

    ``times`` is how often, ``microseconds`` how long it took in all. ``le`` is the
    least of ``histograms.BOUNDS`` (seconds) that is not shorter than what it took:
    infinite where all are, or where it has no time.
    """

    queue: str
    task: str
    event: str
    le: float
    times: int
    microseconds: int


def totals(session: Session) -> list[Total]:
    """Return all totals, as of one moment."""
    return [Total(*row) for row in session.rows(sql.TOTALS, {})]


def mergeable(session: Session) -> list[str]:
    """Return the grains that have something to merge, finest first."""
    return [grain for (grain,) in session.rows(sql.MERGEABLE, {})]


def merge(session: Session, grain: str, *, limit: int) -> int:
    """Merge old rows of a grain into coarser ones.

    Args:
        session: Where to do it.
        grain: Of ``events.Grain``.
        limit: Most rows to merge.

    Returns:
        How many were merged; fewer than ``limit`` means that no more can be now.

    Concurrency:
        Skips rows that others have locked.
    """
    values = {"grain": grain, "limit": limit}
    merged: int = session.rows(sql.MERGE, values)[0][0]
    return merged
