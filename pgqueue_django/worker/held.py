"""What a handler may write of the job that it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TypeVar

from django.db import DatabaseError, router, transaction

from pgqueue_django import limits
from pgqueue_django.attempts import Attempt
from pgqueue_django.context import Done
from pgqueue_django.db import DjangoSession, Session, is_connection_error
from pgqueue_django.exceptions import InvalidJob, JobFinished, LeaseLost
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.models import Job
from pgqueue_django.outcomes import Committed
from pgqueue_django.serialization import dump_result
from pgqueue_django.worker.leases import Lease

T = TypeVar("T")


class Notes:
    """The connection on which handlers' threads write of their jobs, one at a time.

    Args:
        session: It; None is Django's of each thread.
    """

    def __init__(self, session: Session | None = None) -> None:
        self._session = session
        self._jobs = Job.objects.on(session) if session else Job.objects
        self._lock = Lock()

    def write(self, action: Callable[[JobManager], T]) -> T:
        """Do what may be done twice: once more on a new connection, if one was lost."""
        if self._session is None:
            return action(self._jobs)
        with self._lock:
            try:
                return action(self._jobs)
            except DatabaseError as error:
                if not is_connection_error(error):
                    raise
                return action(self._jobs)

    def close(self, timeout: float) -> None:
        """Close the connection, unless a statement keeps it for so long (seconds)."""
        if self._session is not None and self._lock.acquire(timeout=timeout):
            self._session.close()
            self._lock.release()


class HeldJob:
    """A job as its handler holds it; see ``context.Hold``.

    Args:
        lease: What holds it.
        notes: Where to write of it outside of ``fenced()``.
        using: Alias of the database for ``fenced()``; None leaves it to the routers.
    """

    def __init__(self, lease: Lease, notes: Notes, *, using: str | None) -> None:
        self._lease = lease
        self._notes = notes
        self._using = using

    @contextmanager
    def fenced(self, done: Done, using: str | None) -> Iterator[Done]:
        """See Hold."""
        attempt = self._unfinished()
        alias = using or self._using or router.db_for_write(Job)
        _check_commits(alias)
        jobs = Job.objects.db_manager(alias)
        with transaction.atomic(using=alias, durable=True):
            if not jobs.holds(attempt):
                raise _lost(attempt)
            yield done
            result = dump_result(done.result)
            # From here on a heartbeat may find the job gone, and must not call it lost.
            self._lease.doubtful = True
            if not (jobs.lock(attempt) and jobs.ack(attempt, result)):
                raise _lost(attempt)
        self._lease.committed = Committed(result)

    def save(self, metadata: str, stamped: tuple[str, ...] = ()) -> None:
        """See Hold."""
        attempt = self._unfinished()
        size = self._notes.write(
            lambda jobs: jobs.save_metadata(attempt, metadata, stamped=stamped)
        )
        if size is None:
            raise _lost(attempt)
        if size > limits.METADATA_BYTES:
            raise InvalidJob(
                "metadata",
                f"would take {size:,} bytes with what the job has; "
                f"at most {limits.METADATA_BYTES:,} are kept",
            )

    def extend(self, seconds: float) -> None:
        """See Hold."""
        attempt, since = self._unfinished(), monotonic()
        seconds = max(seconds, self._lease.expires - self._lease.taken)

        def renew(jobs: JobManager) -> bool:
            with jobs.session.atomic():
                return jobs.lock(attempt) and jobs.renew(attempt, lease=seconds)

        if not self._notes.write(renew):
            raise _lost(attempt)
        self._lease.extended(since, seconds)

    def _unfinished(self) -> Attempt:
        attempt = self._lease.attempt
        if self._lease.committed:
            raise JobFinished(f"job {attempt.id} has succeeded in fenced() already")
        return attempt


def _check_commits(alias: str) -> None:
    connection = transaction.get_connection(alias)
    if DjangoSession(alias).in_transaction() and not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            f"fenced() commits by itself, and database {alias!r} is not in autocommit"
        )


def _lost(attempt: Attempt) -> LeaseLost:
    return LeaseLost(
        f"job {attempt.id} ({attempt.task}) is no longer held by its attempt "
        f"{attempt.number}; nothing was written"
    )
