"""A worker's own connection: autocommit, prepared statements, bounded waits."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from time import monotonic
from typing import Any, LiteralString

import psycopg
from django.db import connections
from django.db.utils import Error, InterfaceError

from pgqueue_django.db.errors import djangos_errors, is_connection_error
from pgqueue_django.db.sessions import Params, Row

# What Django puts among a connection's parameters for its own cursors.
_DJANGOS_OWN = ("cursor_factory", "context", "prepare_threshold", "pool")

# A peer that vanished without a word is noticed within these (seconds, and
# milliseconds where libpq says so), whatever the system's defaults.
_BOUNDS: dict[str, object] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# Of several hosts the one that takes writes: libpq would stay with the first, a standby
# since a failover perhaps.
_WRITABLE = {"target_session_attrs": "read-write"}

_READ_COMMITTED: LiteralString = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
)

# Instants of claims come and go as text. Other styles name time zones by letters, which
# servers before 18 read as another zone's than the session's.
_INSTANTS_AS_ISO: LiteralString = "SET DateStyle TO ISO"

# A prepared statement keeps its plan. One that was made while the table was empty would
# read all of it, and go on to when it has millions of rows. Servers before 18 charge so
# much for a scan that cannot be avoided that they would compile it first, for a second.
# And no join asks for the same key twice, so that to remember its rows is of no use.
_KEEP_TO_INDEXES: LiteralString = (
    "SELECT set_config('enable_seqscan', 'off', false),"
    " set_config('jit', 'off', false), set_config('enable_memoize', 'off', false)"
)

# A statement that took so long (seconds) was held up, and so were those of others.
_HELD_UP = 1.0


class WorkerSession:
    """Statements on a connection that no handler can touch.

    It opens itself at the first statement and again after a failure. It belongs to one
    thread; only ``overdue()`` and ``abort()`` are for others.

    Args:
        alias: The database's alias in ``settings.DATABASES``.
        name: What ``pg_stat_activity`` shows as the application.
        prepare: Whether to prepare statements on the server.
        limit: Longest time for one statement (seconds), after which ``overdue()``.
    """

    def __init__(
        self, alias: str, *, name: str, prepare: bool = True, limit: float = 10.0
    ) -> None:
        self._alias = alias
        self._name = name
        self._prepare = prepare
        self._limit = limit
        self._connection: psycopg.Connection[Row] | None = None
        self._busy_since: float | None = None
        self._closing = Lock()
        self._refused = False
        self._trouble = float("-inf")

    def rows(self, statement: LiteralString, params: Params) -> list[Row]:
        """See Session. A connection found broken is closed before the error leaves."""
        with self._bounded() as connection:
            return _rows(connection.execute(statement, params))

    def rows_of_each(
        self, statement: LiteralString, given: Sequence[Params]
    ) -> list[list[Row]]:
        """See Session. All go in one message, where libpq can do that.

        A connection on which one of them failed is closed, with its transaction.
        """
        if len(given) <= 1 or self.in_transaction():
            return [self.rows(statement, params) for params in given]
        with self._bounded() as connection, _pipeline(connection):
            connection.execute("BEGIN")
            cursors = [connection.execute(statement, params) for params in given]
            connection.execute("COMMIT")
        return [cursor.fetchall() for cursor in cursors]

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """See Session."""
        with self._bounded() as connection, connection.transaction():
            yield

    def after_commit(self, action: Callable[[], None]) -> None:
        """See Session: each statement here is a transaction of its own.

        What the action is about is done: its failure must not make that look undone.
        """
        with suppress(Error):
            action()

    def in_transaction(self) -> bool:
        """See Session."""
        connection = self._connection
        return connection is not None and not _idle(connection)

    def listen(self, channels: tuple[str, ...]) -> None:
        """Hear notifications on these channels, on this connection."""
        with self._bounded() as connection:
            for channel in channels:
                connection.execute(
                    psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel))
                )

    def notifications(self, timeout: float) -> list[tuple[str, str]]:
        """Wait for notifications.

        Args:
            timeout: Longest wait in seconds.

        Returns:
            (channel, payload) of those that came first, together; empty when none did.
        """
        if self._connection is None:
            raise InterfaceError("no connection to listen on")
        with self._closing_if_broken():
            heard = self._connection.notifies(timeout=timeout, stop_after=1)
            return [(notice.channel, notice.payload) for notice in heard]

    def close(self) -> None:
        """Close the connection, if one is open."""
        with self._closing:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def overdue(self) -> bool:
        """Tell whether a statement has been under way for longer than its limit."""
        since = self._busy_since
        return since is not None and monotonic() - since > self._limit

    def calm_for(self) -> float:
        """Return for how long the server has been well, as far as it is known here.

        Returns:
            Seconds since the server started, since it let us in again after it had
            refused, or since it held a statement up; the least of them.
        """
        return monotonic() - self._trouble

    def abort(self) -> None:
        """Cut the connection from another thread, so that its statement fails now."""
        # Under the lock, or the number could be another file's by now; on a copy, as
        # the file descriptor itself is libpq's to close.
        with self._closing, suppress(OSError, psycopg.Error):
            if self._connection is not None:
                copy = socket.socket(fileno=os.dup(self._connection.fileno()))
                with copy:
                    copy.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _bounded(self) -> Iterator[psycopg.Connection[Row]]:
        self._busy_since = since = monotonic()
        try:
            with self._closing_if_broken():
                yield self._opened()
        finally:
            if monotonic() - since > _HELD_UP:
                self._trouble = monotonic()
            self._busy_since = None

    @contextmanager
    def _closing_if_broken(self) -> Iterator[None]:
        try:
            with djangos_errors():
                yield
        except BaseException as error:
            if is_connection_error(error) or not self._usable():
                self.close()
            raise

    def _usable(self) -> bool:
        return self._connection is not None and _idle(self._connection)

    def _opened(self) -> psycopg.Connection[Row]:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> psycopg.Connection[Row]:
        refused, self._refused = self._refused, True
        connection = psycopg.connect(**self._parameters())
        try:
            uptime = self._prepare_connection(connection)
        except BaseException:
            connection.close()
            raise
        self._refused = False
        since = monotonic() - (0.0 if refused else uptime)
        self._trouble = max(self._trouble, since)
        return connection

    def _parameters(self) -> dict[str, Any]:
        wrapper = connections[self._alias]
        given = wrapper.get_connection_params()
        for name in _DJANGOS_OWN:
            given.pop(name, None)
        # 2: prepared at the second use, as a statement of start-up is used once.
        threshold = 2 if self._prepare else None
        return {
            **_BOUNDS,
            **_WRITABLE,
            "application_name": self._name,
            **given,
            "autocommit": True,
            "prepare_threshold": threshold,
        }

    def _prepare_connection(self, connection: psycopg.Connection[Row]) -> float:
        """Make a connection ours; return for how long the server has run (seconds)."""
        role = connections[self._alias].settings_dict["OPTIONS"].get("assume_role")
        if role:
            connection.execute(
                psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role))
            )
        isolation, read_only, uptime = connection.execute(
            "SELECT current_setting('transaction_isolation'),"
            " current_setting('transaction_read_only'),"
            " date_part('epoch', clock_timestamp() - pg_postmaster_start_time())"
        ).fetchall()[0]
        if read_only == "on":
            raise psycopg.errors.ReadOnlySqlTransaction(
                "the server is read-only: a standby, or default_transaction_read_only"
            )
        if isolation != "read committed":
            connection.execute(_READ_COMMITTED)
        connection.execute(_INSTANTS_AS_ISO)
        if self._prepare:
            connection.execute(_KEEP_TO_INDEXES)
        return float(uptime)


def _pipeline(connection: psycopg.Connection[Row]) -> AbstractContextManager[object]:
    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


def _rows(cursor: psycopg.Cursor[Row]) -> list[Row]:
    # Not by its description, which would be made for the question, column by column.
    result = cursor.pgresult
    return cursor.fetchall() if result is not None and result.nfields else []


def _idle(connection: psycopg.Connection[Row]) -> bool:
    status = connection.pgconn.transaction_status
    return bool(status == psycopg.pq.TransactionStatus.IDLE)
