"""The verbs of a job's life: what may be done to the job table, and nothing else.

``Job.objects`` runs them on Django's connection of the calling thread, inside its open
transaction. ``Job.objects.on(session)`` is the same on a worker's own connection.
"""

from collections.abc import Iterable, Sequence
from typing import LiteralString, NamedTuple

from django.db import IntegrityError

from pgqueue_django.db import Session
from pgqueue_django.db.sessions import Row
from pgqueue_django.managers import pruning
from pgqueue_django.managers.hints import hint
from pgqueue_django.managers.holding import HolderVerbs
from pgqueue_django.managers.producing import ProducerVerbs
from pgqueue_django.managers.sessions import counting
from pgqueue_django.notifications import CANCEL_CHANNEL
from pgqueue_django.sql import jobs as sql
from pgqueue_django.states import FINISHED

# A payload has less than 8,000 bytes, and an id up to 19 digits.
_IDS_IN_A_HINT = 300


class Reaped(NamedTuple):
    """A job whose lease had expired, and the state it went to."""

    id: int
    queue: str
    task: str
    state: str
    attempts: int
    worker: str


class JobManager(ProducerVerbs, HolderVerbs):
    """Those of producers and of workers, and what anybody may do for all."""

    def promote(self, limit: int = 1_000) -> dict[str, int]:
        """Queue scheduled jobs that are due, and hint at their queues.

        Args:
            limit: Most jobs to queue at once.

        Returns:
            How many became due, by queue.
        """
        session = self.session
        alone = not session.in_transaction()
        statement = sql.PROMOTE_ALONE if alone else sql.PROMOTE
        rows = session.rows(statement, {"limit": limit})
        promoted = {row[0]: row[1] for row in rows}
        self._hint_due(session, promoted)
        return promoted

    def next_due(self) -> float | None:
        """Return the seconds until a scheduled job is due; None when there is none."""
        wait: float | None = self.session.rows(sql.NEXT_DUE, {})[0][0]
        return wait

    def next_expiry(self) -> float | None:
        """Return the seconds until the first lease ends; None when none is held."""
        wait: float | None = self.session.rows(sql.NEXT_EXPIRY, {})[0][0]
        return wait

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

    def release_dead_worker(self, worker: str, *, besides: Sequence[int]) -> int:
        """Give back at once what a worker held that was killed for other jobs.

        Their attempts are given back too: the jobs have not caused the death.

        Args:
            worker: The worker's identity.
            besides: Ids of those other jobs.

        Returns:
            How many went back.

        Concurrency:
            Skips rows that others have locked.
        """
        session = self.session
        values = {"worker": worker, "besides": list(besides)}
        rows = session.rows(sql.RELEASE_DEAD_WORKER, values)
        self._hint_due(session, {queue for (queue,) in rows})
        return len(rows)

    def _lose_leases(self, statement: LiteralString, **values: object) -> list[Reaped]:
        session = self.session
        rows = session.rows(statement, values | counting())
        reaped = [Reaped(*row) for row in rows]
        self._hint_due(session, {job.queue for job in reaped if job.state == "queued"})
        return reaped

    def cancel_many(self, ids: Iterable[int]) -> set[int]:
        """Cancel jobs that have not finished, running ones included.

        What a running handler writes afterwards is refused. Its worker is told at once
        by a hint, where it hears those; else it finds out at the next renewal.

        Returns:
            The ids that were cancelled; not among them are jobs that had finished, or
            do not exist.

        Concurrency:
            Waits for rows that others have locked, in the order of ids.
        """
        values = {"ids": list(ids)} | counting()
        session = self.session
        rows = session.rows(sql.CANCEL, values)
        ran = sorted(id_ for id_, ran in rows if ran)
        for first in range(0, len(ran), _IDS_IN_A_HINT):
            some = ran[first : first + _IDS_IN_A_HINT]
            hint(session, CANCEL_CHANNEL, ",".join(map(str, some)))
        return {id_ for id_, _ in rows}

    def cancelled(self, ids: Iterable[int]) -> set[int]:
        """Return those of the ids whose jobs are cancelled."""
        rows = self.session.rows(sql.CANCELLED, {"ids": list(ids)})
        return {id_ for (id_,) in rows}

    def cancel(self, id_: int) -> bool:
        """Cancel one job; False when it had finished or is not there."""
        return bool(self.cancel_many([id_]))

    def requeue_many(self, ids: Iterable[int]) -> set[int]:
        """Let dead jobs run again, with all their attempts before them.

        Returns:
            The ids that were requeued. Not among them are jobs that are not dead, and
            those whose unique key a live job has; of several dead jobs with one key,
            the newest is requeued.

        Raises:
            django.db.OperationalError: A deadlock (40P01) with a batch that enqueues
                several of the same unique keys; nothing is changed.

        Concurrency:
            Waits for open transactions that change these jobs, or that enqueue their
            unique keys.
        """
        session = self.session
        rows = _requeue(session, list(ids))
        self._hint_due(session, {queue for _, queue in rows})
        return {id_ for id_, _ in rows}

    def requeue(self, id_: int) -> bool:
        """Let one dead job run again; False when it is not dead, or a key is taken."""
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


def _requeue(session: Session, ids: list[int]) -> list[Row]:
    """Requeue; one by one, if somebody takes the unique key of one just then."""
    try:
        with session.atomic():
            return session.rows(sql.REQUEUE, {"ids": ids} | counting())
    except IntegrityError:
        if len(ids) <= 1:
            return []
    newest_first = sorted(ids, reverse=True)
    return [row for id_ in newest_first for row in _requeue(session, [id_])]
