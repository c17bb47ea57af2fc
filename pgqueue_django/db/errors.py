"""Which errors of the database mean what."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import utils

# SQLSTATE classes and codes after which only a new connection can help: connection
# exceptions, the server going down or coming up, a read-only server (a standby, or a
# primary that was demoted), too many connections.
_LOST_CLASSES = ("08", "57P")
_LOST_CODES = ("25006", "53300")

# After these the same statement may well work: lost connections, conflicts between
# transactions, a server out of resources, locks and timeouts, interventions.
_PASSING_CLASSES = ("08", "40", "53", "55", "57", "58")

# A value that is larger or deeper than the server's own bounds.
_LIMIT_CLASS = "54"

_DJANGO_ERRORS: tuple[tuple[type[psycopg.Error], type[utils.Error]], ...] = (
    (psycopg.DataError, utils.DataError),
    (psycopg.OperationalError, utils.OperationalError),
    (psycopg.IntegrityError, utils.IntegrityError),
    (psycopg.InternalError, utils.InternalError),
    (psycopg.ProgrammingError, utils.ProgrammingError),
    (psycopg.NotSupportedError, utils.NotSupportedError),
    (psycopg.DatabaseError, utils.DatabaseError),
    (psycopg.InterfaceError, utils.InterfaceError),
    (psycopg.Error, utils.Error),
)


@contextmanager
def djangos_errors() -> Iterator[None]:
    """Turn the driver's errors into Django's, with the original as the cause."""
    try:
        yield
    except psycopg.Error as error:
        for theirs, ours in _DJANGO_ERRORS:
            if isinstance(error, theirs):
                raise ours(*error.args) from error
        raise


def is_connection_error(error: BaseException) -> bool:
    """Tell whether the connection, and not the statement, is to blame.

    Args:
        error: One of ``django.db.utils``' errors, with the driver's as its cause.
    """
    if isinstance(error, utils.InterfaceError):
        return True
    if not isinstance(error, utils.DatabaseError):
        return False
    sqlstate = _sqlstate(error)
    if sqlstate is None:
        return isinstance(error, utils.OperationalError)
    return sqlstate.startswith(_LOST_CLASSES) or sqlstate in _LOST_CODES


def is_passing(error: BaseException) -> bool:
    """Tell whether the same may work later, with nothing changed but the moment.

    Args:
        error: As in ``is_connection_error``.
    """
    sqlstate = _sqlstate(error) or ""
    return is_connection_error(error) or sqlstate.startswith(_PASSING_CLASSES)


def is_missing_table(error: BaseException) -> bool:
    """Tell whether a table or a column is not there: the migrations have not run.

    Args:
        error: As in ``is_connection_error``.
    """
    return _sqlstate(error) in ("42P01", "42703")


def is_bad_value(error: BaseException) -> bool:
    """Tell whether what was to be stored is to blame, so that it will never work.

    Args:
        error: As in ``is_connection_error``.
    """
    if isinstance(error, utils.DataError | utils.IntegrityError):
        return True
    return (_sqlstate(error) or "").startswith(_LIMIT_CLASS)


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)
