"""What a worker may do: claim jobs, and write of those that it holds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import LiteralString
from uuid import uuid4

from pgqueue_django import limits
from pgqueue_django.attempts import Attempt, Place, Write, Written
from pgqueue_django.managers.arrays import array
from pgqueue_django.managers.sessions import SessionManager, counting
from pgqueue_django.sql import holding as sql

# Where a look begins that has no place to begin after.
_HEAD = (None, None, None)


class HolderVerbs(SessionManager):
    """Claim, and every write under a lease."""

    # --- claim ------------------------------------------------------------------------

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
        values = {"queue": queue, "limit": limit, "worker": worker, "lease": lease}
        if after is not None:
            return self._claim(sql.CLAIM_ON, **values, **after._asdict())
        statement = sql.CLAIM_WAITING if for_update_wait else sql.CLAIM
        return self._claim(statement, **values)

    def claim_along(
        self,
        queues: Mapping[str, Place | None],
        *,
        limit: int,
        worker: str,
        lease: float,
    ) -> list[Attempt]:
        """Take due jobs of several queues: of the next one what the last ones lack.

        Args: as in ``claim``, and ``queues``, in order, each with the place behind
            which to look in it; None is its head.

        Returns:
            The attempts of one queue after the other, most urgent first in each.
        """
        if len(queues) == 1:
            ((queue, place),) = queues.items()
            return self.claim(
                queue, limit=limit, worker=worker, lease=lease, after=place
            )
        places = [place or _HEAD for place in queues.values()]
        attempts = self._claim(
            sql.CLAIM_ALONG,
            limit=limit,
            worker=worker,
            lease=lease,
            queues=list(queues),
            priorities=array(place[0] for place in places),
            run_ats=array(place[1] for place in places),
            ids=array(place[2] for place in places),
        )
        order = {queue: position for position, queue in enumerate(queues)}
        return sorted(attempts, key=lambda attempt: order[attempt.queue])

    def claim_tasks(
        self,
        queue: str,
        *,
        tasks: Sequence[str],
        depth: int,
        limit: int,
        worker: str,
        lease: float,
    ) -> list[Attempt]:
        """Take due jobs of some tasks only.

        Args: as in ``claim``, and ``tasks``, their names; ``depth``, how many jobs to
            look at, from the head of the queue.
        """
        return self._claim(
            sql.CLAIM_TASKS,
            queue=queue,
            limit=limit,
            worker=worker,
            lease=lease,
            tasks=list(tasks),
            depth=depth,
        )

    def claim_unserved(
        self, queue: str, *, tasks: Sequence[str], limit: int, worker: str, lease: float
    ) -> list[Attempt]:
        """Take jobs that other workers set aside, of tasks that this one knows.

        Args: as in ``claim``, and ``tasks``, the names of the known ones.
        """
        return self._claim(
            sql.CLAIM_UNSERVED,
            queue=queue,
            limit=limit,
            worker=worker,
            lease=lease,
            tasks=list(tasks),
        )

    def _claim(self, statement: LiteralString, **values: object) -> list[Attempt]:
        given = {**values, "token": str(uuid4())} | counting()
        return list(starmap(Attempt, self.session.rows(statement, given)))

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

    # --- under a lease ----------------------------------------------------------------

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

    # --- for handlers -----------------------------------------------------------------

    def holds(self, attempt: Attempt) -> bool:
        """Tell whether the caller still holds a job."""
        given = _arrays(attempt.queue, [Write(attempt)])
        return bool(self.session.rows(sql.STILL_HELD, given))

    def not_held(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Return those whose leases are lost; nothing is written."""
        lost: list[Attempt] = []
        for queue, writes in _by_queue(map(Write, attempts)).items():
            rows = self.session.rows(sql.STILL_HELD, _arrays(queue, writes))
            held = {position for (position,) in rows}
            lost += [
                write.attempt
                for position, write in enumerate(writes, start=1)
                if position not in held
            ]
        return lost

    def find_held(self, id_: int, token: str) -> Attempt | None:
        """Return the attempt that holds a job by this token; None if none does."""
        rows = self.session.rows(sql.FIND_HELD, {"id": id_, "token": token})
        return Attempt(*rows[0]) if rows else None

    def lock(self, attempt: Attempt) -> bool:
        """Lock a held job until the transaction ends; False when the lease is lost.

        Concurrency:
            Waits for whoever has the row locked.
        """
        return bool(self.session.rows(sql.LOCK_HELD, _fence(attempt)))

    def save_metadata(
        self, attempt: Attempt, metadata: str, *, stamped: Sequence[str] = ()
    ) -> int | None:
        """Add to a held job's metadata.

        Args:
            attempt: Whose.
            metadata: A JSON object; its keys take the places of old ones.
            stamped: Keys of it whose objects get the database's time, as ``at``.

        Returns:
            The bytes of the job's metadata. With more than ``limits.METADATA_BYTES``
            nothing was written. None when the lease is lost.

        Concurrency:
            Waits for whoever has the row locked.
        """
        values = _fence(attempt) | {
            "metadata": metadata,
            "stamped": list(stamped),
            "bytes": limits.METADATA_BYTES,
        }
        rows = self.session.rows(sql.SAVE_METADATA, values)
        return rows[0][0] if rows else None

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
        queues = _by_queue(writes)
        arrays = [_arrays(*entry) for entry in queues.items()]
        answers = session.rows_of_each(statement, [given | values for given in arrays])
        for (queue, its_writes), given, ((positions,),) in zip(
            queues.items(), arrays, answers, strict=True
        ):
            done = set(positions or ())
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
            attempts: Those that are no longer held.
            worker: The identity of the worker that held them.

        Returns:
            The ids of jobs whose rows show that this worker ended that attempt. Not of
            one that went back and is another's by now: that leaves no trace.
        """
        recorded: set[int] = set()
        for queue, writes in _by_queue(map(Write, attempts)).items():
            given = {
                "queue": queue,
                "ids": [write.attempt.id for write in writes],
                "numbers": [write.attempt.number for write in writes],
                "worker": worker,
            }
            recorded |= {id_ for (id_,) in self.session.rows(sql.RECORDED, given)}
        return recorded


def _fence(attempt: Attempt) -> dict[str, object]:
    return {"queue": attempt.queue, "id": attempt.id, "token": attempt.token}


def _by_queue(writes: Iterable[Write]) -> dict[str, list[Write]]:
    queues: dict[str, list[Write]] = defaultdict(list)
    for write in writes:
        queues[write.attempt.queue].append(write)
    return queues


def _arrays(queue: str, writes: list[Write]) -> dict[str, object]:
    # Arrays as text, and details as one: the driver would take longer to make them
    # than the server takes for the statement.
    attempts = [write.attempt for write in writes]
    return {
        "queue": queue,
        "ids": array([attempt.id for attempt in attempts]),
        "tokens": array([attempt.token for attempt in attempts]),
        "delays": array([write.delay for write in writes]),
        "details": f"[{','.join([write.detail or 'null' for write in writes])}]",
    } | counting()


def _sort_into(
    written: Written, writes: list[Write], done: set[int], held: set[int]
) -> None:
    if len(done) == len(writes):
        written.done.extend([write.attempt for write in writes])
        return
    for position, write in enumerate(writes, start=1):
        if position in done:
            written.done.append(write.attempt)
        elif position in held:
            written.busy.append(write.attempt)
        else:
            written.lost.append(write.attempt)
