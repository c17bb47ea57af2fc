"""What runs a statement: the interface, and Django's own connection behind it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, LiteralString, Protocol

from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue_django.db.errors import is_connection_error

Row = tuple[Any, ...]
Params = Mapping[str, Any]


class Session(Protocol):
    """A way to run statements one at a time; not to be shared between threads."""

    def rows(self, statement: LiteralString, params: Params) -> list[Row]:
        """Run a statement and return its rows.

        Raises:
            django.db.utils.Error: Whatever the database says.
        """
        ...

    def rows_of_each(
        self, statement: LiteralString, given: Sequence[Params]
    ) -> list[list[Row]]:
        """Run a statement once for each of these, and return the rows of each.

        What they write is all kept or all undone.
        """
        ...

    def atomic(self) -> AbstractContextManager[None]:
        """Return a block whose statements are all kept or all undone."""
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call ``action`` once what was written is committed, if it ever is.

        Two equal actions in one transaction are one.
        """
        ...

    def in_transaction(self) -> bool:
        """Tell whether the next statement joins a transaction that is open."""
        ...

    def close(self) -> None:
        """Close a connection that is the session's own."""
        ...


@dataclass(frozen=True, slots=True)
class DjangoSession:
    """Statements on Django's connection of this thread, in its open transaction.

    A connection that is to blame for an error is closed, where nobody's transaction is
    open on it, so that the next statement finds another server or the same again.
    Django would keep it until the end of a request, and one to a server that became
    read-only for longer.

    Args:
        alias: The database's alias in ``settings.DATABASES``.
    """

    alias: str

    def rows(self, statement: LiteralString, params: Params) -> list[Row]:
        """See Session."""
        try:
            with connections[self.alias].cursor() as cursor:
                cursor.execute(statement, dict(params))
                return list(cursor.fetchall())
        except Error as error:
            self._leave_if_broken(error)
            raise

    def rows_of_each(
        self, statement: LiteralString, given: Sequence[Params]
    ) -> list[list[Row]]:
        """See Session."""
        with self.atomic() if len(given) > 1 else nullcontext():
            return [self.rows(statement, params) for params in given]

    def rows_before(
        self, statement: LiteralString, then: LiteralString, params: Params
    ) -> list[Row] | None:
        """Run two statements, each in a transaction of its own, in one message.

        Args:
            statement: Whose rows are returned. It is committed before the other runs.
            then: What carries no promise.
            params: Of both.

        Returns:
            None where that cannot be, and nothing was done: in a transaction, and where
            parameters go apart from the text, which they do with one statement only.

        Raises:
            django.db.utils.Error: Whatever the database says. An error of the second
                leaves open what became of the first, as a lost connection does.
        """
        connection: Any = connections[self.alias]
        if _in_transaction(connection) or connection.features.uses_server_side_binding:
            return None
        with connection.cursor() as cursor:
            try:
                cursor.execute(f"BEGIN;{statement};COMMIT;{then}", dict(params))
            except BaseException as error:
                with suppress(Error):
                    connection.rollback()
                self._leave_if_broken(error)
                raise
            # All answers are here. Behind that to BEGIN comes the statement's.
            answers = cursor.cursor
            answers.nextset()
            return list(answers.fetchall())

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """See Session."""
        try:
            with transaction.atomic(using=self.alias):
                yield
        except Error as error:
            self._leave_if_broken(error)
            raise

    def _leave_if_broken(self, error: BaseException) -> None:
        if is_connection_error(error) and not self.in_transaction():
            connections[self.alias].close()

    def after_commit(self, action: Callable[[], None]) -> None:
        """See Session."""
        connection = connections[self.alias]
        if self.in_transaction() and not connection.in_atomic_block:
            # The caller commits by hand, of which Django hears nothing.
            action()
            return
        waiting = (entry[1] for entry in connection.run_on_commit)
        if action not in waiting:
            transaction.on_commit(action, using=self.alias, robust=True)

    def in_transaction(self) -> bool:
        """See Session."""
        return _in_transaction(connections[self.alias])

    def close(self) -> None:
        """Leave the connection to Django, whose it is."""


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    return connection.in_atomic_block or not connection.get_autocommit()
