"""Django's connections of a handler's thread: sound before a job, clean after it."""

import select
from collections.abc import Callable
from contextlib import ExitStack, suppress
from threading import local
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class _Here(local):
    """Of this thread: whether it may have a connection open."""

    opened = False


_here = _Here()


def _note_connection(**_: Any) -> None:
    _here.opened = True


# Most jobs of a thread that has never opened a connection need no look at any.
connection_created.connect(_note_connection, dispatch_uid=__name__)


class HandlerConnections:
    """Guards this thread's connections around one job, as a context manager.

    A connection that the server closed meanwhile is opened anew at its next use. One
    that the job left in a transaction is rolled back and thrown away. Any other that it
    used loses all that a session can keep: settings, role, locks, temporary tables.
    """

    __slots__ = ("_stack", "_untouched", "left_open")

    def __init__(self) -> None:
        self.left_open: list[str] = []
        """Aliases on which the job left a transaction open."""
        self._stack: ExitStack | None = None
        self._untouched: set[BaseDatabaseWrapper] = set()

    def __enter__(self) -> "HandlerConnections":
        if _here.opened:
            self._stack = ExitStack()
            for connection in _opened():
                self._check(self._stack, connection)
        return self

    def __exit__(self, *_: object) -> None:
        if self._stack is not None:
            self._stack.close()
        if _here.opened:
            for connection in _opened():
                self._clean(connection)
            _here.opened = bool(_opened())

    def _check(self, stack: ExitStack, connection: BaseDatabaseWrapper) -> None:
        if _hung_up(connection):
            _throw_away(connection)
        else:
            self._untouched.add(connection)
            notice = _noticing(connection, self._untouched)
            stack.enter_context(connection.execute_wrapper(notice))

    def _clean(self, connection: BaseDatabaseWrapper) -> None:
        if _in_transaction(connection):
            _throw_away(connection)
            self.left_open.append(connection.alias)
        elif connection not in self._untouched:
            _clean(connection)


def close_handler_connections() -> None:
    """Close this thread's connections, at its end."""
    connections.close_all()


def is_in_transaction() -> bool:
    """Tell whether a connection of this thread is in a transaction."""
    return _here.opened and any(map(_in_transaction, _opened()))


def _clean(connection: BaseDatabaseWrapper) -> None:
    try:
        _reset(connection)
    except Exception:  # noqa: BLE001 - whatever a broken connection raises
        _throw_away(connection)


def _opened() -> list[BaseDatabaseWrapper]:
    initialized = connections.all(initialized_only=True)
    return [c for c in initialized if c.connection is not None or c.in_atomic_block]


def _noticing(
    connection: BaseDatabaseWrapper, untouched: set[BaseDatabaseWrapper]
) -> Callable[..., Any]:
    def notice(
        execute: Callable[..., Any],
        sql: str,
        params: Any,
        many: bool,  # noqa: FBT001 - the signature is Django's
        context: dict[str, Any],
    ) -> Any:
        untouched.discard(connection)
        return execute(sql, params, many, context)

    return notice


def _hung_up(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether the server said something to an idle connection: its farewell.

    A look at the socket instead of a query, since most connections are well.
    """
    if connection.vendor != "postgresql":
        return not connection.is_usable()
    if connection.connection is None or connection.connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.connection.fileno(), select.POLLIN | select.POLLRDHUP)
    return bool(poll.poll(0)) and not connection.is_usable()


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    if connection.in_atomic_block or connection.closed_in_transaction:
        return True
    if not connection.autocommit or connection.vendor != "postgresql":
        return not connection.autocommit
    status = connection.connection.pgconn.transaction_status
    # Unknown is a connection that is broken.
    return status not in (
        psycopg.pq.TransactionStatus.IDLE,
        psycopg.pq.TransactionStatus.UNKNOWN,
    )


def _throw_away(connection: BaseDatabaseWrapper) -> None:
    # close() inside atomic() would keep the wrapper in its broken state for the next
    # job, so the wrapper goes too; Django makes a new one when it is asked.
    raw, connection.connection = connection.connection, None
    del connections[connection.alias]
    if raw is not None:
        with suppress(Exception):
            raw.close()
            if pool := getattr(connection, "pool", None):
                pool.putconn(raw)


def _reset(connection: BaseDatabaseWrapper) -> None:
    if connection.vendor == "postgresql":
        connection.connection.execute("DISCARD ALL")
        connection.init_connection_state()
        if getattr(connection, "pool", None):
            # Django leaves this to the pool, which does it once for each connection.
            configure = connection._configure_connection  # type: ignore[attr-defined]  # noqa: SLF001
            configure(connection.connection)
        connection_created.send(sender=connection.__class__, connection=connection)
    if getattr(connection, "pool", None):
        connection.close()
