"""Which worker processes there are, and which of them say nothing any more."""

from typing import Final

from pgqueue_django.db import DjangoSession
from pgqueue_django.managers.workers import SeenWorker, seen
from pgqueue_django.stats.jobs import database

# Nobody looks at more.
_MOST: Final = 1_000

# Three beats have not come (seconds).
_SILENT_AFTER: Final = 45.0


def workers() -> list[SeenWorker]:
    """Return the workers that have said something within an hour, by host and name."""
    return seen(DjangoSession(database()), limit=_MOST)


def is_silent(seconds: float) -> bool:
    """Tell whether a worker that said nothing for so long has stopped or hangs."""
    return seconds > _SILENT_AFTER
