"""What is counted of jobs' lives, each in the same transaction as it happens."""

from django.db.models import TextChoices


class Event(TextChoices):
    """What happened to a job, with how long something took where that has a meaning.

    ``STARTED`` is the first claim of a job, and only that one; its time is the wait
    since it could run, which is the later of ``enqueued_at`` and ``run_at``. What ends
    an attempt has the time from the claim to the recorded end. What others do has none.
    """

    STARTED = "started"
    SUCCEEDED = "succeeded"
    RETRIED = "retried"
    """Failed, and another attempt follows."""
    FAILED = "failed"
    """Failed, and no other attempt follows: the job is dead."""
    CANCELLED_BY_HANDLER = "cancelled_by_handler"
    LEASE_EXPIRED = "lease_expired"
    """Lost by its worker, and another attempt follows."""
    LEASE_EXPIRED_DEAD = "lease_expired_dead"
    """Lost by its worker, and no other attempt follows: the job is dead."""
    CANCELLED = "cancelled"
    """Cancelled by somebody else, after its first claim."""
    CANCELLED_UNSTARTED = "cancelled_unstarted"
    """Cancelled by somebody else, before any claim."""
    REQUEUED = "requeued"
    """Dead before; waits again."""


class Grain(TextChoices):
    """What one row of counts stands for."""

    WRITER = "writer"
    """One minute of one database session: nobody else writes that row."""
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    EVER = "ever"
    """All that is older than the days that are kept."""
