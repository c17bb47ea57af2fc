"""A job as the model has it: what each verb makes of it, in a few lines each.

It is written from the rules in ``docs/architecture.md`` and not from the statements,
so that the two can disagree.

Time is a number of seconds on a clock of the model's own, which moves only when it is
told to.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from pgqueue_django import limits
from pgqueue_django.attempts import Write
from pgqueue_django.events import Event
from pgqueue_django.states import FINISHED, LIVE, State

LEASE_EXPIRED = "pgqueue_django.exceptions.LeaseExpired"
BROKEN = "tests.Broken"
"""The exception of ``tests.factories.FAILURE``."""

PINNED_WAIT = 50.0
"""Seconds that a job waits after a lost lease, once its wait has been looked at.

The real one has a part at random; whoever runs model and database side by side checks
it, and then sets the row's ``run_at`` to this.
"""


class When(NamedTuple):
    """An instant, and the number of the statement that set it, which orders equals."""

    at: float
    mark: int


class Failed(NamedTuple):
    """An entry of a job's history."""

    attempt: int
    worker: str
    exception: str


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job; ``ever_claimed`` outlives every verb."""

    queue: str
    task: str
    call: str
    priority: int
    max_attempts: int
    key: str | None
    unique_key: str | None
    run_at: When
    state: State
    attempts: int = 0
    worker: str = ""
    token: str | None = None
    lease_until: float | None = None
    ever_claimed: bool = False
    finished_at: float | None = None
    result: str | None = None
    errors: tuple[Failed, ...] = ()

    def unleased(self, **changes: object) -> "Job":
        """Return it changed, and held by nobody."""
        return replace(self, token=None, lease_until=None, **changes)  # type: ignore[arg-type]

    def failed(self, exception: str) -> "Job":
        """Return it with this attempt in its history."""
        entry = Failed(self.attempts, self.worker, exception)
        kept = (*self.errors, entry)[-limits.ERRORS_KEPT :]
        return replace(self, errors=kept, worker="")


def waiting(delay: float) -> State:
    """Return the state of a job that is due after so many seconds."""
    return State.SCHEDULED if delay > 0 else State.QUEUED


# --- what a holder does ---------------------------------------------------------------


def claimed(job: Job, worker: str, token: str, until: float) -> Job:
    """Count an attempt, under a new lease."""
    return replace(
        job,
        state=State.RUNNING,
        attempts=job.attempts + 1,
        worker=worker,
        token=token,
        lease_until=until,
        ever_claimed=True,
    )


def acked(job: Job, write: Write, now: When) -> Job:
    """End it as a success."""
    return job.unleased(
        state=State.SUCCEEDED, finished_at=now.at, result=write.detail or "null"
    )


def retried(job: Job, write: Write, now: When) -> Job:
    """Remember the failure and let it wait."""
    delay = write.delay or 0.0
    return job.failed(BROKEN).unleased(
        state=waiting(delay), run_at=When(now.at + delay, now.mark)
    )


def failed(job: Job, write: Write, now: When) -> Job:
    """Remember the failure; it is dead."""
    return job.failed(BROKEN).unleased(state=State.DEAD, finished_at=now.at)


def cancelled_by_handler(job: Job, write: Write, now: When) -> Job:
    """Remember why; it is cancelled."""
    return job.failed(BROKEN).unleased(state=State.CANCELLED, finished_at=now.at)


def _given_back(job: Job, **changes: object) -> Job:
    return job.unleased(attempts=job.attempts - 1, worker="", **changes)


def snoozed(job: Job, write: Write, now: When) -> Job:
    """Give the attempt back, and wait."""
    delay = write.delay or 0.0
    return _given_back(job, state=waiting(delay), run_at=When(now.at + delay, now.mark))


def released(job: Job, write: Write | None, now: When) -> Job:
    """Give the attempt back, at the old place."""
    return _given_back(job, state=State.QUEUED)


def parked(job: Job, write: Write, now: When) -> Job:
    """Give the attempt back, and stand aside."""
    return _given_back(job, state=State.UNSERVED)


Ending = Callable[[Job, Write, When], Job]

ENDINGS: dict[str, tuple[Ending, Event | None]] = {
    "ack": (acked, Event.SUCCEEDED),
    "retry": (retried, Event.RETRIED),
    "fail": (failed, Event.FAILED),
    "cancel_held": (cancelled_by_handler, Event.CANCELLED_BY_HANDLER),
    "snooze": (snoozed, None),
    "release": (released, None),
    "park": (parked, None),
}
"""The writes that end an attempt, and what they count as."""


# --- what others do -------------------------------------------------------------------


def reaped(job: Job, now: When) -> tuple[Job, Event]:
    """Take it away from who lost it; dead if that was its last attempt."""
    lost = job.failed(LEASE_EXPIRED).unleased()
    if job.attempts >= job.max_attempts:
        dead = replace(lost, state=State.DEAD, finished_at=now.at)
        return dead, Event.LEASE_EXPIRED_DEAD
    if job.attempts == 1:
        return replace(lost, state=State.QUEUED), Event.LEASE_EXPIRED
    again = When(now.at + PINNED_WAIT, now.mark)
    return replace(lost, state=State.SCHEDULED, run_at=again), Event.LEASE_EXPIRED


def cancelled(job: Job, now: When) -> tuple[Job, Event]:
    """End a live job; whoever holds it is not asked."""
    assert job.state in LIVE
    event = Event.CANCELLED if job.ever_claimed else Event.CANCELLED_UNSTARTED
    return job.unleased(state=State.CANCELLED, finished_at=now.at), event


def requeued(job: Job, now: When) -> tuple[Job, Event]:
    """Let a dead job begin anew; its history stays."""
    assert job.state in FINISHED
    anew = replace(
        job, state=State.QUEUED, run_at=now, attempts=0, worker="", finished_at=None
    )
    return anew, Event.REQUEUED
