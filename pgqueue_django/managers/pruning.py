"""Finding and deleting finished jobs, group by group and batch by batch."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from pgqueue_django.db import Session
from pgqueue_django.sql import pruning as sql


class Group(NamedTuple):
    """What one queue has in one finished state; ``oldest`` is an age in seconds."""

    queue: str
    state: str
    oldest: float


class Pruned(NamedTuple):
    """What a batch deleted, and when the youngest of it had finished."""

    deleted: int
    upto: datetime | None


def finished_groups(session: Session) -> list[Group]:
    """Return all groups that have jobs, by queue and state."""
    return [Group(*row) for row in session.rows(sql.FINISHED_GROUPS, {})]


def prune_group(
    session: Session,
    group: Group,
    *,
    age: float,
    limit: int,
    since: datetime | None = None,
) -> Pruned:
    """Delete the oldest jobs of a group.

    Args:
        session: Where to do it.
        group: Which.
        age: Least time since the finish, in seconds.
        limit: Most jobs to delete.
        since: Leave out what finished before; what the last batch gave as ``upto``.

    Returns:
        What was deleted; fewer than ``limit`` means that no more can be now.

    Concurrency:
        Skips rows that others have locked.
    """
    values = {
        "queue": group.queue,
        "state": group.state,
        "age": age,
        "since": since,
        "limit": limit,
    }
    return Pruned(*session.rows(sql.PRUNE, values)[0])


def prune(session: Session, *, age: float, states: Collection[str], limit: int) -> int:
    """Delete jobs of these states in any queue; return how many."""
    deleted = 0
    for group in finished_groups(session):
        if deleted < limit and group.state in states and group.oldest > age:
            rest = limit - deleted
            deleted += prune_group(session, group, age=age, limit=rest).deleted
    return deleted


def count_old(session: Session, group: Group, *, age: float) -> int:
    """Return how many jobs of a group are older than ``age`` (seconds)."""
    values = {"queue": group.queue, "state": group.state, "age": age}
    count: int = session.rows(sql.COUNT_OLD, values)[0][0]
    return count


def count_sessions(session: Session, prefix: str) -> int:
    """Return how many sessions of this database have such an application name."""
    count: int = session.rows(sql.COUNT_SESSIONS, {"prefix": prefix})[0][0]
    return count
