"""Which workers there are, as they say of themselves."""

from datetime import datetime
from typing import Final, NamedTuple

from pgqueue_django.db import Session
from pgqueue_django.sql import workers as sql

# A row that nobody has renewed for so long is of no worker any more (seconds).
_SILENT: Final = 3_600.0


class Introduction(NamedTuple):
    """What a worker process says of itself, the same for all its life."""

    name: str
    host: str
    pid: int
    queues: str
    threads: int
    async_slots: int
    version: str


class SeenWorker(NamedTuple):
    """A worker process as it was at its last beat, ``silence`` seconds ago."""

    name: str
    host: str
    pid: int
    queues: str
    threads: int
    async_slots: int
    running: int
    version: str
    started_at: datetime
    seen_at: datetime
    silence: float


def beat(session: Session, worker: Introduction, *, running: int, age: float) -> None:
    """Say that a worker is there; delete rows that have been silent for an hour.

    Args:
        session: Where to say it.
        worker: Who it is.
        running: How many jobs it runs.
        age: How long ago it started (seconds).

    Concurrency:
        Skips silent rows that others have locked.
    """
    values = {**worker._asdict(), "running": running, "age": age, "silent": _SILENT}
    session.rows(sql.BEAT, values)


def leave(session: Session, name: str) -> None:
    """Say that a worker has ended."""
    session.rows(sql.LEAVE, {"name": name})


def seen(session: Session, *, limit: int) -> list[SeenWorker]:
    """Return the workers that have said something, by host and name."""
    return [SeenWorker(*row) for row in session.rows(sql.ALL, {"limit": limit})]
