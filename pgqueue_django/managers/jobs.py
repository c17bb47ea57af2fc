"""The verbs of a job's life: what may be done to the job table, and nothing else.

``Job.objects`` runs them on Django's connection of the calling thread, inside its open
transaction. ``Job.objects.on(session)`` is the same on a worker's own connection.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, LiteralString, NamedTuple, Self
from uuid import uuid4

from django.db import OperationalError, models, router, transaction

from pgqueue_django.attempts import Attempt, Place, Write, Written
from pgqueue_django.conf import get_settings
from pgqueue_django.db import DjangoSession, Session
from pgqueue_django.db.sessions import Row
from pgqueue_django.exceptions import IdempotencyConflict, PgQueueError
from pgqueue_django.managers import pruning
from pgqueue_django.managers.hints import hint
from pgqueue_django.notifications import DUE_CHANNEL, SOON_CHANNEL
from pgqueue_django.specs import JobSpec
from pgqueue_django.sql import jobs as sql
from pgqueue_django.states import FINISHED

if TYPE_CHECKING:
    from pgqueue_django.models import Job  # noqa: F401 - in the quotes below

# Rows in one INSERT: beyond a thousand, the cost of a row no longer falls.
_ENQUEUE_CHUNK = 1_000

# A key can vanish between the conflict and the look only when the pruner deletes the
# job just then; twenty times in a row is a table that somebody deletes in a loop.
_KEY_TRIES = 20
_FLICKERS = "idempotency_key: {} is taken and freed again faster than it can be read"


class _KeyFreed(Exception):
    """A key that was taken when a batch was inserted is free when it is looked up."""


class Enqueued(NamedTuple):
    """A job that exists now; ``created`` is False for a replayed idempotency key."""

    id: int
    enqueued_at: datetime
    created: bool


class Reaped(NamedTuple):
    """A job whose lease had expired, and the state it went to."""

    id: int
    queue: str
    task: str
    state: str
    attempts: int
    worker: str


class JobManager(models.Manager["Job"]):
    """The queue's operations beside Django's own of a manager."""

    _own_session: Session | None = None

    def on(self, session: Session) -> Self:
        """Return these operations on another session than Django's."""
        manager = copy(self)
        manager._own_session = session  # noqa: SLF001 - our own class
        return manager

    @property
    def session(self) -> Session:
        """Where statements run: the given session, or Django's by the routers."""
        if self._own_session is not None:
            return self._own_session
        return DjangoSession(self._db or router.db_for_write(self.model))

    # --- enqueue ----------------------------------------------------------------------

    def enqueue(self, spec: JobSpec) -> Enqueued:
        """Insert a job, in the caller's transaction if there is one.

        Args:
            spec: What to run, checked.

        Returns:
            The new job; or, when its idempotency key is taken by the same call in the
            same queue, the job that has it.

        Raises:
            IdempotencyConflict: The key is taken by a job with another task or other
                arguments.
            django.db.OperationalError: In a transaction that is REPEATABLE READ or
                SERIALIZABLE, the key was taken since it began (SQLSTATE 40001): run
                all of it again.

        Concurrency:
            With a key, waits for an open transaction that is enqueuing the same key.
        """
        session = self.session
        values = _one(spec)
        for _ in range(_KEY_TRIES):
            if inserted := _insert(session, values):
                self._hint_inserted(session, inserted)
                return Enqueued(inserted[0][0], inserted[0][1], created=True)
            if found := self._find_by_key(session, spec):
                return found
        raise PgQueueError(_FLICKERS.format(repr(spec.idempotency_key)))

    def enqueue_many(self, specs: Iterable[JobSpec]) -> list[int]:
        """Insert jobs, all or none of them.

        Args:
            specs: What to run; read in chunks, so an iterator of any length will do.

        Returns:
            The jobs' ids in the order given; for a replayed idempotency key, the id of
            the job that has it.

        Raises:
            IdempotencyConflict: As in ``enqueue``; then nothing is inserted.
            django.db.OperationalError: As in ``enqueue``, in any transaction. Or a
                deadlock (40P01), when another batch has some of the same keys and one
                of the two is of more than a thousand jobs.
        """
        session = self.session
        ids: list[int] = []
        with session.atomic():
            for chunk in _chunks(specs, _ENQUEUE_CHUNK):
                ids.extend(self._enqueue_chunk(session, chunk))
        return ids

    def _enqueue_chunk(self, session: Session, specs: list[JobSpec]) -> list[int]:
        if all(spec.idempotency_key is None for spec in specs):
            return self._insert_chunk(session, specs)
        for _ in range(_KEY_TRIES):
            with suppress(_KeyFreed), session.atomic():
                return self._insert_chunk(session, specs)
        raise PgQueueError(_FLICKERS.format("one of these keys"))

    def _insert_chunk(self, session: Session, specs: list[JobSpec]) -> list[int]:
        inserted = session.rows(sql.ENQUEUE, _columns(specs))
        self._hint_inserted(session, inserted)
        plain = iter(sorted(row[0] for row in inserted if row[4] is None))
        keyed = {(row[3], row[4]): row[0] for row in inserted if row[4] is not None}
        ids = []
        for spec in specs:
            if spec.idempotency_key is None:
                ids.append(next(plain))
            elif id_ := keyed.pop((spec.queue, spec.idempotency_key), None):
                ids.append(id_)
            elif found := self._find_by_key(session, spec):
                ids.append(found.id)
            else:
                # To insert it now, out of turn, could deadlock with another batch.
                raise _KeyFreed
        return ids

    def _find_by_key(self, session: Session, spec: JobSpec) -> Enqueued | None:
        found = session.rows(sql.FIND_BY_KEY, _one(spec))
        if not found:
            return None
        id_, enqueued_at, same = found[0]
        if not same:
            raise IdempotencyConflict(spec.queue, spec.idempotency_key or "", id_)
        return Enqueued(id_, enqueued_at, created=False)

    def _hint_inserted(self, session: Session, inserted: list[Row]) -> None:
        waits: dict[str, list[float]] = defaultdict(list)
        for row in inserted:
            waits[row[3]].append(row[2])
        for queue in sorted(waits):
            self._hint_waits(session, queue, waits[queue])

    def _hint_waits(self, session: Session, queue: str, waits: list[float]) -> None:
        soon = get_settings().poll_interval_seconds
        if any(wait <= 0 for wait in waits):
            hint(session, DUE_CHANNEL, queue)
        if any(0 < wait < soon for wait in waits):
            hint(session, SOON_CHANNEL, queue)

    # --- promote, claim ---------------------------------------------------------------

    def promote(self, limit: int = 1_000) -> dict[str, int]:
        """Queue scheduled jobs that are due, and hint at their queues.

        Args:
            limit: Most jobs to queue at once.

        Returns:
            How many became due, by queue.
        """
        session = self.session
        promoted = {
            row[0]: row[1] for row in session.rows(sql.PROMOTE, {"limit": limit})
        }
        self._hint_due(session, promoted)
        return promoted

    def next_due(self) -> float | None:
        """Return the seconds until a scheduled job is due; None when there is none."""
        wait: float | None = self.session.rows(sql.NEXT_DUE, {})[0][0]
        return wait

    def due_queues(self, queues: Iterable[str]) -> list[str]:
        """Return those of the queues that have due jobs."""
        rows = self.session.rows(sql.DUE_QUEUES, {"queues": list(queues)})
        return [queue for (queue,) in rows]

    def unserved_queues(
        self, queues: Iterable[str], *, tasks: Sequence[str]
    ) -> set[str]:
        """Return those of the queues in which jobs of these tasks were set aside."""
        given = {"queues": list(queues), "tasks": list(tasks)}
        return {queue for (queue,) in self.session.rows(sql.UNSERVED_QUEUES, given)}

    def claim(
        self,
        queue: str,
        *,
        limit: int,
        worker: str,
        lease: float,
        after: Place | None = None,
        for_update_wait: bool = False,
    ) -> list[Attempt]:
        """Take due jobs of one queue under a lease.

        Args:
            queue: Where to look.
            limit: Most jobs to take.
            worker: The worker's identity.
            lease: How long the jobs are its own without renewal (seconds).
            after: Look only behind this place, at jobs of the same priority.
            for_update_wait: Wait for rows that others claim; for benchmarks only.

        Returns:
            The attempts, most urgent first; empty when nothing is due.

        Concurrency:
            Skips rows that others have locked.
        """
        values = {"limit": limit, "worker": worker, "lease": lease}
        if after is not None:
            return self._claim(sql.CLAIM_ON, queue, **values, **after._asdict())
        statement = sql.CLAIM_WAITING if for_update_wait else sql.CLAIM
        return self._claim(statement, queue, **values)

    def claim_unserved(
        self, queue: str, *, tasks: Sequence[str], limit: int, worker: str, lease: float
    ) -> list[Attempt]:
        """Take jobs that other workers set aside, of tasks that this one knows.

        Args: as in ``claim``, and ``tasks``, the names of the known ones.
        """
        return self._claim(
            sql.CLAIM_UNSERVED,
            queue,
            limit=limit,
            worker=worker,
            lease=lease,
            tasks=list(tasks),
        )

    def _claim(
        self, statement: LiteralString, queue: str, **values: object
    ) -> list[Attempt]:
        token = str(uuid4())
        rows = self.session.rows(statement, {**values, "queue": queue, "token": token})
        return [Attempt(queue, id_, token, *described) for id_, *described in rows]

    def set_aside(self, queue: str, *, tasks: Sequence[str], depth: int = 5_000) -> int:
        """Move jobs of unknown tasks out of the way of the others.

        Args:
            queue: Where to look.
            tasks: The names of the known tasks.
            depth: How many jobs to look at, from the head of the queue.

        Returns:
            How many were set aside.
        """
        values = {"queue": queue, "tasks": list(tasks), "depth": depth}
        moved: int = self.session.rows(sql.SET_ASIDE, values)[0][0]
        return moved

    # --- by the worker that holds the job ---------------------------------------------

    def renew_many(self, writes: Iterable[Write], *, lease: float) -> Written:
        """Make leases last from now on for ``lease`` seconds."""
        return self._write(sql.RENEW, writes, lease=lease)

    def ack_many(self, writes: Iterable[Write]) -> Written:
        """Record successes; each detail is the result."""
        return self._write(sql.ACK, writes)

    def retry_many(self, writes: Iterable[Write]) -> Written:
        """Record failures after which the jobs run again, each after its delay."""
        return self._write(sql.RETRY, writes, then_due=True)

    def fail_many(self, writes: Iterable[Write]) -> Written:
        """Record failures after which the jobs are dead."""
        return self._write(sql.FAIL, writes)

    def cancel_held_many(self, writes: Iterable[Write]) -> Written:
        """Record that handlers cancelled their jobs; each detail says why."""
        return self._write(sql.CANCEL_HELD, writes)

    def snooze_many(self, writes: Iterable[Write]) -> Written:
        """Put jobs off, each for its delay, and give their attempts back."""
        return self._write(sql.SNOOZE, writes, then_due=True)

    def release_many(self, writes: Iterable[Write]) -> Written:
        """Give jobs back to the queue, as if they had not been claimed."""
        return self._write(sql.RELEASE, writes, then_due=True)

    def park_many(self, writes: Iterable[Write]) -> Written:
        """Set jobs aside for a worker that knows their tasks."""
        return self._write(sql.PARK, writes)

    def renew(self, attempt: Attempt, *, lease: float) -> bool:
        """Renew one lease; False when it is lost."""
        return bool(self.renew_many([Write(attempt)], lease=lease).done)

    def ack(self, attempt: Attempt, result: str = "null") -> bool:
        """Record one success; False when the lease is lost."""
        return bool(self.ack_many([Write(attempt, detail=result)]).done)

    def retry(self, attempt: Attempt, failure: str, delay: float = 0.0) -> bool:
        """Record one failure and run the job again; False when the lease is lost."""
        return bool(self.retry_many([Write(attempt, delay, failure)]).done)

    def fail(self, attempt: Attempt, failure: str) -> bool:
        """Record one final failure; False when the lease is lost."""
        return bool(self.fail_many([Write(attempt, detail=failure)]).done)

    def cancel_held(self, attempt: Attempt, reason: str) -> bool:
        """Cancel one job that the caller holds; False when the lease is lost."""
        return bool(self.cancel_held_many([Write(attempt, detail=reason)]).done)

    def snooze(self, attempt: Attempt, delay: float) -> bool:
        """Put one job off; False when the lease is lost."""
        return bool(self.snooze_many([Write(attempt, delay)]).done)

    def release(self, attempt: Attempt) -> bool:
        """Give one job back; False when the lease is lost."""
        return bool(self.release_many([Write(attempt)]).done)

    def park(self, attempt: Attempt) -> bool:
        """Set one job aside; False when the lease is lost."""
        return bool(self.park_many([Write(attempt)]).done)

    def _write(
        self,
        statement: LiteralString,
        writes: Iterable[Write],
        *,
        then_due: bool = False,
        **values: object,
    ) -> Written:
        session = self.session
        written = Written([], [], [])
        for queue, its_writes in _by_queue(writes).items():
            given = _arrays(queue, its_writes)
            done = {position for (position,) in session.rows(statement, given | values)}
            if then_due:
                waits = [its_writes[n - 1].delay or 0.0 for n in done]
                self._hint_waits(session, queue, waits)
            held: set[int] = set()
            if len(done) < len(its_writes):
                held = {position for (position,) in session.rows(sql.STILL_HELD, given)}
            _sort_into(written, its_writes, done, held)
        return written

    def recorded(self, attempts: Iterable[Attempt], *, worker: str) -> set[int]:
        """Find outcomes that are stored, though their writer had no answer.

        Args:
            attempts: Those that are no longer held; of one queue.
            worker: The identity of the worker that held them.

        Returns:
            The ids of jobs whose rows show that this worker ended that attempt. Not of
            one that went back and is another's by now: that leaves no trace.
        """
        attempts = list(attempts)
        given = {
            "queue": attempts[0].queue,
            "ids": [attempt.id for attempt in attempts],
            "numbers": [attempt.number for attempt in attempts],
            "worker": worker,
        }
        return {row[0] for row in self.session.rows(sql.RECORDED, given)}

    # --- by others --------------------------------------------------------------------

    def reap(self, limit: int = 1_000) -> list[Reaped]:
        """Bring back jobs whose leases have expired, or end them as dead.

        Args:
            limit: Most jobs to bring back at once.

        Returns:
            What was reaped; fewer than ``limit`` means that none is left for now.
        """
        return self._lose_leases(sql.REAP, limit=limit, reason="lease expired")

    def reap_dead_worker(self, worker: str) -> list[Reaped]:
        """Do the same at once with the jobs of a worker that has surely died.

        Only who has seen the death of its process itself can be so sure.

        Args:
            worker: The worker's identity.
        """
        return self._lose_leases(
            sql.REAP_DEAD_WORKER, worker=worker, reason="worker process died"
        )

    def _lose_leases(self, statement: LiteralString, **values: object) -> list[Reaped]:
        session = self.session
        reaped = [Reaped(*row) for row in session.rows(statement, values)]
        self._hint_due(session, {job.queue for job in reaped if job.state == "queued"})
        return reaped

    def cancel_many(self, ids: Iterable[int]) -> set[int]:
        """Cancel jobs that have not finished, running ones included.

        What a running handler writes afterwards is refused.

        Returns:
            The ids that were cancelled; not among them are jobs that had finished, do
            not exist, or are locked by somebody just now.
        """
        return {row[0] for row in self.session.rows(sql.CANCEL, {"ids": list(ids)})}

    def cancel(self, id_: int) -> bool:
        """Cancel one job; False when it had finished or is not there."""
        return bool(self.cancel_many([id_]))

    def requeue_many(self, ids: Iterable[int]) -> set[int]:
        """Let dead jobs run again, with all their attempts before them.

        Returns:
            The ids that were requeued; not among them are jobs that are not dead.
        """
        session = self.session
        rows = session.rows(sql.REQUEUE, {"ids": list(ids)})
        self._hint_due(session, {queue for _, queue in rows})
        return {id_ for id_, _ in rows}

    def requeue(self, id_: int) -> bool:
        """Let one dead job run again; False when it is not dead."""
        return bool(self.requeue_many([id_]))

    def prune(
        self,
        *,
        older_than: float,
        states: Iterable[str] = FINISHED,
        limit: int = 1_000,
    ) -> int:
        """Delete finished jobs, whatever ``PGQUEUE["RETENTION"]`` says.

        Args:
            older_than: Age since the finish, in seconds.
            states: Which finished states.
            limit: Most jobs to delete at once.

        Returns:
            How many were deleted; fewer than ``limit`` means that none is left.

        Concurrency:
            Skips rows that others have locked.
        """
        chosen = {str(state) for state in states}
        return pruning.prune(self.session, age=older_than, states=chosen, limit=limit)

    def _hint_due(self, session: Session, queues: Iterable[str]) -> None:
        for queue in sorted(queues):
            hint(session, DUE_CHANNEL, queue)


def _insert(session: Session, values: dict[str, object]) -> list[Row]:
    try:
        return session.rows(sql.ENQUEUE_ONE, values)
    except OperationalError as error:
        if not _sees_more_next_time(session, error):
            raise
        return []


def _sees_more_next_time(session: Session, error: OperationalError) -> bool:
    # 40001 says that somebody took the key after this view of the database was made.
    # Outside a transaction, the next statement has a newer one.
    return (
        getattr(error.__cause__, "sqlstate", None) == "40001"
        and isinstance(session, DjangoSession)
        and transaction.get_autocommit(session.alias)
    )


def _one(spec: JobSpec) -> dict[str, object]:
    return {
        "queue": spec.queue,
        "task": spec.task,
        "args": spec.args,
        "kwargs": spec.kwargs,
        "priority": spec.priority,
        "run_at": spec.run_at,
        "delay": spec.delay,
        "max_attempts": spec.max_attempts,
        "timeout": spec.timeout_seconds,
        "idempotency_key": spec.idempotency_key,
    }


def _columns(specs: list[JobSpec]) -> dict[str, object]:
    return {
        "queues": [spec.queue for spec in specs],
        "tasks": [spec.task for spec in specs],
        "args": [spec.args for spec in specs],
        "kwargs": [spec.kwargs for spec in specs],
        "priorities": [spec.priority for spec in specs],
        "run_ats": [spec.run_at for spec in specs],
        "delays": [spec.delay for spec in specs],
        "max_attempts": [spec.max_attempts for spec in specs],
        "timeouts": [spec.timeout_seconds for spec in specs],
        "idempotency_keys": [spec.idempotency_key for spec in specs],
    }


def _chunks(specs: Iterable[JobSpec], size: int) -> Iterator[list[JobSpec]]:
    rest = iter(specs)
    while chunk := list(islice(rest, size)):
        yield chunk


def _by_queue(writes: Iterable[Write]) -> dict[str, list[Write]]:
    queues: dict[str, list[Write]] = defaultdict(list)
    for write in writes:
        queues[write.attempt.queue].append(write)
    return queues


def _arrays(queue: str, writes: list[Write]) -> dict[str, object]:
    # Arrays as text, and details as one: the driver would take longer to make them
    # than the server takes for the statement.
    return {
        "queue": queue,
        "ids": _array(str(write.attempt.id) for write in writes),
        "tokens": _array(write.attempt.token for write in writes),
        "delays": _array(
            "NULL" if write.delay is None else repr(write.delay) for write in writes
        ),
        "details": f"[{','.join(write.detail or 'null' for write in writes)}]",
    }


def _array(elements: Iterable[str]) -> str:
    return "{" + ",".join(elements) + "}"


def _sort_into(
    written: Written, writes: list[Write], done: set[int], held: set[int]
) -> None:
    if len(done) == len(writes):
        written.done.extend(write.attempt for write in writes)
        return
    for position, write in enumerate(writes, start=1):
        if position in done:
            written.done.append(write.attempt)
        elif position in held:
            written.busy.append(write.attempt)
        else:
            written.lost.append(write.attempt)
