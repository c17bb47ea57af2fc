"""The states of a job, and the groups of them that rules speak of."""

from django.db.models import TextChoices


class State(TextChoices):
    """Where a job is in its life.

    ``SCHEDULED`` waits for its time (a later start, or a backoff). ``QUEUED`` can be
    claimed now. ``UNSERVED`` is due, but a worker that met it does not know its task;
    a worker that does takes it from here. ``RUNNING`` is held under a lease. The other
    three are final.
    """

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    UNSERVED = "unserved"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


FINISHED = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})
LIVE = frozenset(State) - FINISHED
