"""django-ox: the task API, and its own way to enqueue many."""

from bench.peers.sides.tasks_api import enqueue, noop, set_up, warm

__all__ = ["enqueue", "fill", "set_up"]


def fill(name: str, count: int) -> None:
    # Has models, so it wants Django to be set up, as the module above does.
    from django_ox.bulk import enqueue_many

    enqueue_many({"warm": warm, "noop": noop}[name], (((), {}) for _ in range(count)))
