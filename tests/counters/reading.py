"""What the counters say."""

from pgqueue_django.db import DjangoSession
from pgqueue_django.managers import counters
from pgqueue_django.managers.counters import Total


def totals() -> list[Total]:
    """Return all totals, read on Django's connection."""
    return counters.totals(DjangoSession("default"))


def counts(**wanted: str) -> dict[str, int]:
    """Return how often each event was counted, of a queue or task if wanted."""
    found: dict[str, int] = {}
    for total in totals():
        if all(getattr(total, key) == value for key, value in wanted.items()):
            found[total.event] = found.get(total.event, 0) + total.times
    return found
