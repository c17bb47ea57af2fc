"""What a producer may do: enqueue."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import LiteralString, NamedTuple, Self

from django.conf import settings
from django.db import OperationalError, transaction
from django.utils import timezone

from pgqueue_django.db import DjangoSession, Session
from pgqueue_django.db.sessions import Row
from pgqueue_django.exceptions import IdempotencyConflict, PgQueueError
from pgqueue_django.managers.arrays import array
from pgqueue_django.managers.hints import Hint
from pgqueue_django.managers.sessions import SessionManager
from pgqueue_django.notifications import DUE_CHANNEL
from pgqueue_django.specs import JobSpec
from pgqueue_django.sql import producing as sql

# Rows in one INSERT: beyond a thousand, the cost of a row no longer falls.
_CHUNK_ROWS = 1_000

# Arguments in one INSERT, about (characters of JSON): a jsonb array has an end too.
_CHUNK_CHARS = 8_000_000

# A key can vanish between the conflict and the look when its job is pruned just then,
# or ends, if the key is a unique one; twenty times in a row is not by chance.
_KEY_TRIES = 20
_FLICKERS = "{} is taken and freed again faster than it can be read"


class _KeyFreed(Exception):
    """A key that was taken when a batch was inserted is free when it is looked up."""


class Enqueued(NamedTuple):
    """A job that exists now; ``created`` is False where another job had its key."""

    id: int
    enqueued_at: datetime
    created: bool

    @classmethod
    def of(cls, id_: int, seconds: float, *, created: bool) -> Self:
        """Make it of the instant in seconds since 1970.

        It is as model fields give it: naive where ``USE_TZ`` is off.
        """
        instant = datetime.fromtimestamp(seconds, UTC)
        if not settings.USE_TZ:
            zone = timezone.get_default_timezone()
            instant = timezone.make_naive(instant, zone)
        return cls(id_, instant, created)


class ProducerVerbs(SessionManager):
    """Enqueue, one and many."""

    def enqueue(self, spec: JobSpec) -> Enqueued:
        """Insert a job, in the caller's transaction if there is one.

        Args:
            spec: What to run, checked.

        Returns:
            The new job; or, when its idempotency key is taken by the same call in the
            same queue, the job that has it; or else, when its unique key is taken by a
            live job in the same queue, whatever that runs, that job.

        Raises:
            IdempotencyConflict: The key is taken by a job with another task or other
                arguments.
            django.db.OperationalError: In a transaction that is REPEATABLE READ or
                SERIALIZABLE, the key was taken, or its job changed, since it began
                (SQLSTATE 40001): run all of it again.

        Concurrency:
            With a key, waits for an open transaction that is enqueuing the same key,
            or, with a unique one, that is ending its job.
        """
        session = self.session
        if spec.has_key:
            return self._enqueue_keyed(session, spec)
        if spec.run_at is None and spec.delay <= 0:
            due = Hint(session, DUE_CHANNEL, spec.queue)
            (row,) = due.after(sql.ENQUEUE_NOW, _one(spec))
            return Enqueued.of(*row, created=True)
        return self._inserted(session, spec, session.rows(sql.ENQUEUE_ONE, _one(spec)))

    def _enqueue_keyed(self, session: Session, spec: JobSpec) -> Enqueued:
        for _ in range(_KEY_TRIES):
            if rows := _insert_keyed_one(session, spec):
                return self._inserted(session, spec, rows)
            if found := self._find_taken(session, spec):
                return found
        keys = {
            "idempotency_key": spec.idempotency_key,
            "unique_key": spec.unique_key,
        }
        said = " or ".join(f"{name}: {key!r}" for name, key in keys.items() if key)
        raise PgQueueError(_FLICKERS.format(said))

    def _inserted(self, session: Session, spec: JobSpec, rows: list[Row]) -> Enqueued:
        ((id_, enqueued_at, wait),) = rows
        self._hint_waits(session, spec.queue, [wait])
        return Enqueued.of(id_, enqueued_at, created=True)

    def enqueue_many(self, specs: Iterable[JobSpec]) -> list[int]:
        """Insert jobs, all or none of them.

        Args:
            specs: What to run; read in chunks, so an iterator of any length will do.

        Returns:
            The jobs' ids in the order given; where a key is taken, by a job before it
            in the batch too, the id of the job that has it.

        Raises:
            IdempotencyConflict: As in ``enqueue``; then nothing is inserted.
            django.db.OperationalError: As in ``enqueue``, in any transaction. Or a
                deadlock (40P01), when another batch has some of the same keys and one
                of the two is of more than a thousand jobs, or has the same two keys
                in other pairs.
        """
        session = self.session
        ids: list[int] = []
        with session.atomic():
            for chunk in _chunks(specs):
                ids.extend(self._enqueue_chunk(session, chunk))
        return ids

    def _enqueue_chunk(self, session: Session, specs: list[JobSpec]) -> list[int]:
        if not any(spec.has_key for spec in specs):
            inserted = self._insert_chunk(session, sql.ENQUEUE, specs)
            return sorted(row[0] for row in inserted)
        for _ in range(_KEY_TRIES):
            with suppress(_KeyFreed), session.atomic():
                return self._insert_keyed(session, specs)
        raise PgQueueError(_FLICKERS.format("an idempotency_key or unique_key"))

    def _insert_keyed(self, session: Session, specs: list[JobSpec]) -> list[int]:
        inserted = self._insert_chunk(session, sql.ENQUEUE_KEYED, specs)
        plain = iter(sorted(row[0] for row in inserted if row[3:] == (None, None)))
        keyed = {row[2:]: row[0] for row in inserted if row[3:] != (None, None)}
        ids = []
        for spec in specs:
            keys = (spec.queue, spec.idempotency_key, spec.unique_key)
            id_ = keyed.pop(keys, None) if spec.has_key else next(plain, None)
            if id_ is None and (found := self._find_taken(session, spec)):
                id_ = found.id
            if id_ is None:
                # To insert it now, out of turn, could deadlock with another batch.
                raise _KeyFreed
            ids.append(id_)
        return ids

    def _insert_chunk(
        self, session: Session, statement: LiteralString, specs: list[JobSpec]
    ) -> list[Row]:
        inserted = session.rows(statement, _columns(specs))
        waits: dict[str, list[float]] = defaultdict(list)
        for _id, wait, queue, *_keys in inserted:
            waits[queue].append(wait)
        for queue in sorted(waits):
            self._hint_waits(session, queue, waits[queue])
        return inserted

    def _find_taken(self, session: Session, spec: JobSpec) -> Enqueued | None:
        """Find the job that has the idempotency key, or else the unique key."""
        if spec.idempotency_key and (found := self._find_by_key(session, spec)):
            return found
        rows = session.rows(sql.FIND_LIVE, _one(spec)) if spec.unique_key else []
        return Enqueued.of(*rows[0], created=False) if rows else None

    def _find_by_key(self, session: Session, spec: JobSpec) -> Enqueued | None:
        found = session.rows(sql.FIND_BY_KEY, _one(spec))
        if not found:
            return None
        id_, enqueued_at, same = found[0]
        if not same:
            raise IdempotencyConflict(spec.queue, spec.idempotency_key or "", id_)
        return Enqueued.of(id_, enqueued_at, created=False)


def _insert_keyed_one(session: Session, spec: JobSpec) -> list[Row]:
    try:
        return session.rows(sql.ENQUEUE_ONE_KEYED, _one(spec))
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
        "unique_key": spec.unique_key,
    }


def _columns(specs: list[JobSpec]) -> dict[str, object]:
    # As text where that is the same: the driver would take longer to make the arrays
    # than the server takes for the statement.
    return {
        "queues": [spec.queue for spec in specs],
        "tasks": [spec.task for spec in specs],
        "args": f"[{','.join(spec.args for spec in specs)}]",
        "kwargs": f"[{','.join(spec.kwargs for spec in specs)}]",
        "priorities": array(spec.priority for spec in specs),
        "run_ats": [spec.run_at for spec in specs],
        "delays": array(spec.delay for spec in specs),
        "max_attempts": array(spec.max_attempts for spec in specs),
        "timeouts": array(spec.timeout_seconds for spec in specs),
        "idempotency_keys": _texts(spec.idempotency_key for spec in specs),
        "unique_keys": _texts(spec.unique_key for spec in specs),
    }


def _texts(elements: Iterable[str | None]) -> list[str | None] | None:
    """Return the elements; None, which the server reads in no time, if all are None."""
    texts = list(elements)
    return texts if any(text is not None for text in texts) else None


def _chunks(specs: Iterable[JobSpec]) -> Iterator[list[JobSpec]]:
    chunk: list[JobSpec] = []
    chars = 0
    for spec in specs:
        chunk.append(spec)
        chars += len(spec.args) + len(spec.kwargs)
        if len(chunk) == _CHUNK_ROWS or chars >= _CHUNK_CHARS:
            yield chunk
            chunk, chars = [], 0
    if chunk:
        yield chunk
