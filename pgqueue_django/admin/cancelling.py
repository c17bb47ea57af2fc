"""The action *cancel*, for a page of jobs or for a million."""

from collections.abc import Collection, Iterator
from time import monotonic
from typing import Any, Final, NamedTuple

from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.db.utils import OperationalError

from pgqueue_django.db.bounded import at_most, was_cancelled
from pgqueue_django.models import Job
from pgqueue_django.states import LIVE, State

_BATCH: Final = 1_000

# How long a batch waits for a row that somebody has locked.
_LOCK_SECONDS: Final = 0.5

# Web servers end a request after 30 s. What is left then is told, and can be asked for.
_SECONDS: Final = 20.0


class Cancelled(NamedTuple):
    """What a cancellation did: how many, and whether it ended before it was through."""

    done: int
    busy: int
    stopped: bool


def cancel(jobs: QuerySet[Job], user_id: Any) -> Cancelled:
    """Cancel those of the jobs that have not finished.

    Args:
        jobs: Which.
        user_id: Who does it, for the admin's history.

    Concurrency: each batch is committed by itself. Jobs that others keep locked are
    left out, after a short wait, and counted as busy.
    """
    give_up_at = monotonic() + _SECONDS
    done = busy = 0
    for batch in _live_batches(jobs):
        ids = _cancel(batch, jobs.db, give_up_at)
        _log([(id_, batch[id_]) for id_ in sorted(ids)], user_id)
        done += len(ids)
        busy += len(batch) - len(ids)
        if monotonic() > give_up_at:
            return Cancelled(done, busy, stopped=True)
    return Cancelled(done, busy, stopped=False)


def _cancel(ids: Collection[int], alias: str, give_up_at: float) -> set[int]:
    """Cancel a batch, or what can be had of it where some of it stays locked."""
    try:
        with at_most(_LOCK_SECONDS, using=alias):
            return Job.objects.db_manager(alias).cancel_many(ids)
    except OperationalError as error:
        if not was_cancelled(error):
            raise
    if len(ids) == 1:
        return set()
    done: set[int] = set()
    for half in _halves(sorted(ids)):
        if monotonic() < give_up_at:
            done |= _cancel(half, alias, give_up_at)
    return done


def _halves(ids: list[int]) -> tuple[list[int], list[int]]:
    middle = len(ids) // 2
    return ids[:middle], ids[middle:]


def _live_batches(jobs: QuerySet[Job]) -> Iterator[dict[int, str]]:
    """Yield ids and tasks, state by state: each has an index of its own."""
    for state in sorted(LIVE):
        seen = 0
        found = jobs.filter(state=state).order_by("pk").values_list("pk", "task")
        while batch := dict(found.filter(pk__gt=seen)[:_BATCH]):
            yield batch
            seen = max(batch)


def _log(cancelled: list[tuple[int, str]], user_id: Any) -> None:
    jobs: Any = [
        Job(pk=id_, task=task, state=State.CANCELLED) for id_, task in cancelled
    ]
    if jobs:
        LogEntry.objects.log_actions(user_id, jobs, CHANGE, "Cancelled.")
