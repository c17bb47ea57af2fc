"""Statements of Django's connection that may take only so long."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction
from django.db.utils import DatabaseError

_QUERY_CANCELED = "57014"
_SERIALIZATION_FAILURE = "40001"


@contextmanager
def at_most(seconds: float, *, using: str) -> Iterator[None]:
    """Give each statement of the block at most so long, in a transaction of its own.

    Args:
        seconds: The time for one statement.
        using: The database's alias.

    Raises:
        django.db.utils.OperationalError: It took longer (``was_cancelled``), so what
            the block wrote is undone.
    """
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        before = cursor.fetchone()[0]
        cursor.execute(_SET, [f"{max(1, round(seconds * 1000))}ms"])
        yield
        # The block may be inside a longer transaction.
        cursor.execute(_SET, [before])


_SET = "SELECT set_config('statement_timeout', %s, true)"


def was_cancelled(error: DatabaseError) -> bool:
    """Tell whether a statement was stopped, for its time or by somebody."""
    return _sqlstate(error) == _QUERY_CANCELED


def is_to_be_repeated(error: DatabaseError) -> bool:
    """Tell whether the transaction would go through if it were run again."""
    return _sqlstate(error) == _SERIALIZATION_FAILURE


def _sqlstate(error: DatabaseError) -> object:
    return getattr(error.__cause__, "sqlstate", None)
