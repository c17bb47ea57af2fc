"""Whether the queue can be used."""

from typing import LiteralString, Protocol

from pgqueue_django.sql import health as sql


class Asks(Protocol):
    """What can ask the database one question."""

    def is_true(self, statement: LiteralString) -> bool:
        """Return the boolean that a statement returns."""
        ...


def table_is_there(probe: Asks) -> bool:
    """Tell whether the job table exists.

    Raises:
        TimeoutError: The database did not answer in time.
        django.db.utils.OperationalError: It cannot be asked.
    """
    return probe.is_true(sql.TABLE_IS_THERE)
