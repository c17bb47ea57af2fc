"""One question to the database, on a connection made for it, in bounded time."""

import select
from time import monotonic
from typing import Final, LiteralString

from django.db import connections
from django.db.utils import OperationalError
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, ExecStatus, PGconn, PollingStatus
from psycopg.pq.abc import PGconn as Connection

from pgqueue_django.db.errors import djangos_errors

# What Django puts among a connection's parameters for its own cursors.
_DJANGOS_OWN: Final = ("cursor_factory", "context", "prepare_threshold", "pool")

# libpq would wait for 2 s at least, and the deadline here is what counts.
_NO_LIMIT: Final = 0


class Probe:
    """Asks a question, and gives up at a deadline whatever the server does.

    It speaks to libpq directly: ``psycopg.connect()`` waits for 2 s at least, and
    leaves the socket of a server that says nothing open until garbage is collected.

    Args:
        alias: The database's alias in ``settings.DATABASES``.
        name: What ``pg_stat_activity`` shows as the application.
        seconds: The time for all of it. Only the look-up of a host's name can take
            longer.
    """

    def __init__(self, alias: str, *, name: str, seconds: float) -> None:
        self._alias = alias
        self._name = name
        self._seconds = seconds

    def is_true(self, statement: LiteralString) -> bool:
        """Connect, ask, and disconnect.

        Args:
            statement: One that returns one boolean.

        Raises:
            TimeoutError: There was no answer in time.
            django.db.utils.OperationalError: The server cannot be reached, or refused.
        """
        deadline = monotonic() + self._seconds
        with djangos_errors():
            connection: Connection = PGconn.connect_start(self._conninfo())
            try:
                _connect(connection, deadline)
                return _ask(connection, statement, deadline)
            finally:
                connection.finish()

    def _conninfo(self) -> bytes:
        given = connections[self._alias].get_connection_params()
        for name in _DJANGOS_OWN:
            given.pop(name, None)
        given |= {"application_name": self._name, "connect_timeout": _NO_LIMIT}
        return make_conninfo(**given).encode()


def _connect(connection: Connection, deadline: float) -> None:
    # As libpq's manual has it: before the first poll, wait until it can be written to.
    status = PollingStatus.WRITING
    while status != PollingStatus.OK:
        if ConnStatus(connection.status) == ConnStatus.BAD:
            raise OperationalError(connection.get_error_message())
        writing = status == PollingStatus.WRITING
        _wait(connection, select.POLLOUT if writing else select.POLLIN, deadline)
        status = PollingStatus(connection.connect_poll())


def _ask(connection: Connection, statement: LiteralString, deadline: float) -> bool:
    connection.send_query(statement.encode())
    while connection.is_busy():
        _wait(connection, select.POLLIN, deadline)
        connection.consume_input()
    result = connection.get_result()
    if result is None or result.status != ExecStatus.TUPLES_OK:
        raise OperationalError(connection.get_error_message())
    return result.get_value(0, 0) == b"t"


def _wait(connection: Connection, events: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(connection.socket, events)
    if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
        raise TimeoutError("the server does not answer")
