"""Time in tests: due times are moved, and no clock is."""

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import DateTimeField, F, Func

from pgqueue_django.specs import clean_delay
from pgqueue_django.states import State


def travel(delta: float | timedelta) -> None:
    """Let so much time pass for the jobs that wait for theirs.

    Those that are due then can run. Nothing else knows of it: neither Python's clock
    nor the database's moves.

    Args:
        delta: Seconds, or a timedelta; not negative.

    Raises:
        InvalidJob: The delta is no span of time.
    """
    from pgqueue_django.models import Job

    span = timedelta(seconds=clean_delay(delta, field="delta"))
    Job.objects.filter(state=State.SCHEDULED).update(run_at=F("run_at") - span)
    promote()


def promote() -> None:
    """Queue all that is due."""
    from pgqueue_django.models import Job

    while Job.objects.promote():
        pass


def make_due(ids: Iterable[int]) -> None:
    """Let these jobs wait no longer."""
    from pgqueue_django.models import Job

    now = Func(template="statement_timestamp()", output_field=DateTimeField())
    waiting = Job.objects.filter(pk__in=list(ids), state=State.SCHEDULED)
    waiting.update(run_at=now)
    promote()
