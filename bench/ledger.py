"""Two books of one run, from which it is judged afterwards what was lost or doubled.

Handlers write *marks*, before and after their work, on a connection of their own: a
process that is killed leaves what it has written. The server writes *turns*: a trigger
in the bench's own database notes every claim and every end of an attempt, with the
token that the row had and the token that the writer says it is. ``bench.judging``
compares the two with the rows and the counters.

A run: ``open_books(connection)``, then jobs whose handlers work inside ``entered()``
and return what it yields, then ``judge(connection)``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, local
from time import monotonic
from typing import Any, Final, LiteralString

import psycopg
from django.db import connections

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.sites import DEFAULT

LEDGER: Final = "ledger"
"""Alias by which marks reach the server, where it is not that of the jobs: past a proxy
that hurts the workers' connections."""

# How long a mark is tried while the server is away (seconds), a little apart. Long
# enough for any restart; after that the attempt fails, and is counted as failed.
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.05

_BOOKS: Final[LiteralString] = """
CREATE TABLE bench_mark (
    job bigint, token uuid, step text, attempt integer NOT NULL, worker text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, token, step)
);
CREATE TABLE bench_worker (identity text PRIMARY KEY, pid integer NOT NULL);
CREATE TABLE bench_turn (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    job bigint NOT NULL, what text NOT NULL, attempt integer NOT NULL,
    token uuid, worker text NOT NULL, writer uuid, is_first boolean NOT NULL
);
CREATE FUNCTION bench_note_turn() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    failed boolean := NEW.errors IS DISTINCT FROM OLD.errors;
    expired boolean := failed AND NEW.errors -> -1 ->> 'exception'
        IS NOT DISTINCT FROM 'pgqueue_django.exceptions.LeaseExpired';
    said text := CASE
        WHEN NEW.state = 'succeeded' THEN NEW.result #>> '{}'
        WHEN failed AND NOT expired THEN NEW.errors -> -1 ->> 'message'
    END;
    claimed boolean := NEW.state = 'running';
    what text := CASE
        WHEN claimed AND OLD.state = 'running' THEN 'stolen'
        WHEN claimed AND OLD.finished_at IS NOT NULL THEN 'revived'
        WHEN claimed THEN 'claimed'
        WHEN NEW.state = 'succeeded' THEN 'succeeded'
        WHEN NEW.state = 'cancelled' AND failed THEN 'cancelled_by_handler'
        WHEN NEW.state = 'cancelled' AND OLD.first_claimed_at IS NULL
            THEN 'cancelled_unstarted'
        WHEN NEW.state = 'cancelled' THEN 'cancelled'
        WHEN OLD.state = 'dead' THEN 'requeued'
        WHEN OLD.state <> 'running' THEN 'moved'
        WHEN expired AND NEW.state = 'dead' THEN 'lease_expired_dead'
        WHEN expired THEN 'lease_expired'
        WHEN NEW.state = 'dead' THEN 'failed'
        WHEN failed THEN 'retried'
        ELSE 'given_back'
    END;
BEGIN
    IF what <> 'moved' THEN
        INSERT INTO bench_turn (job, what, attempt, token, worker, writer, is_first)
        VALUES (
            NEW.id, what,
            CASE WHEN claimed THEN NEW.attempts ELSE OLD.attempts END,
            CASE WHEN claimed THEN NEW.lease_token ELSE OLD.lease_token END,
            CASE WHEN claimed THEN NEW.worker ELSE OLD.worker END,
            substring(said FROM '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')::uuid,
            claimed AND OLD.first_claimed_at IS NULL
        );
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER bench_note_turn AFTER UPDATE ON pgqueue_job FOR EACH ROW
    WHEN (
        OLD.state IS DISTINCT FROM NEW.state
        OR OLD.lease_token IS DISTINCT FROM NEW.lease_token
    )
    EXECUTE FUNCTION bench_note_turn();
"""

# A mark whose answer was lost on the way is written again.
_MARK: Final[LiteralString] = """
INSERT INTO bench_mark (job, token, step, attempt, worker) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""

_WORKER: Final[LiteralString] = """
INSERT INTO bench_worker (identity, pid) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""

_current: ContextVar[Attempt] = ContextVar("attempt")
_own = local()


class _Process:
    identity = ""
    """Of this process's worker; empty at its very start."""
    is_noted = False


def open_books(connection: Connection) -> None:
    """Make the books, in a database of the bench's own that has the job table."""
    # Several commands at once cannot be prepared.
    connection.execute(_BOOKS, prepare=False)


def _note_attempt(*, attempt: Attempt, **_: Any) -> None:
    _current.set(attempt)


def _note_worker(*, identity: str, **_: Any) -> None:
    # A supervisor chooses its children's identities, so their pids are not in them.
    _Process.identity, _Process.is_noted = identity, False


# Handlers are not told their tokens; the signals tell them, in the handler's thread and
# in the worker's process.
signals.job_started.connect(_note_attempt, dispatch_uid="bench.ledger.attempt")
signals.worker_started.connect(_note_worker, dispatch_uid="bench.ledger.worker")


def token() -> str:
    """Return the token of the attempt that runs in this thread.

    A handler that fails has it in its exception's message, so that the book tells who
    wrote the failure.
    """
    return _current.get().token


@contextmanager
def entered() -> Iterator[str]:
    """Mark the beginning and, where nothing is raised, the end of a handler's work.

    Yields:
        The attempt's token, for the handler to return as its result.

    Raises:
        psycopg.Error: The server was away for a minute.
    """
    mark("began")
    yield token()
    mark("ended")


def mark(step: str) -> None:
    """Write one mark, through lost connections."""
    attempt = _current.get()
    if _Process.identity and not _Process.is_noted:
        _write(_WORKER, (_Process.identity, os.getpid()))
        _Process.is_noted = True
    values = (attempt.id, attempt.token, step, attempt.number, _Process.identity)
    _write(_MARK, values)


def _write(statement: LiteralString, values: tuple[object, ...]) -> None:
    deadline = monotonic() + _PATIENCE
    while not _written(statement, values, or_raise=monotonic() > deadline):
        Event().wait(_PAUSE)


def _written(
    statement: LiteralString, values: tuple[object, ...], *, or_raise: bool
) -> bool:
    try:
        _connected().execute(statement, values)
    except (psycopg.OperationalError, psycopg.InterfaceError):
        close()
        if or_raise:
            raise
        return False
    return True


def _connected() -> Connection:
    connection: Connection | None = getattr(_own, "connection", None)
    if connection is None:
        alias = LEDGER if LEDGER in connections.settings else DEFAULT
        connection = _own.connection = connect(
            alias, application_name="bench ledger", connect_timeout=5
        )
    return connection


def close() -> None:
    """Close the connection of this thread; the next mark opens it anew."""
    connection: Connection | None = getattr(_own, "connection", None)
    _own.connection = None
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()
