"""What every test may ask for."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from threading import current_thread
from threading import enumerate as running_threads
from typing import Any

import psycopg
import pytest
from django.db import connection, connections

from pgqueue_django.db import WorkerSession
from tests.waiting import wait_until

PREFIX = "pgqueue"
_DB_FIXTURES = {"db", "transactional_db", "django_db_serialized_rollback"}


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell does that to what it starts in the background, and programs that tests
    # start would inherit it: a Ctrl-C would not reach them.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_of_the_product_is_left(
    request: pytest.FixtureRequest, watcher: "Watcher"
) -> Iterator[None]:
    """Fail a test after which one of our threads or connections is still there."""
    yield
    wait_until(lambda: not _product_threads())
    if watcher.opened or _DB_FIXTURES & set(request.fixturenames):
        wait_until(lambda: not watcher.product_connections())


def _product_threads() -> list[str]:
    return [
        thread.name
        for thread in running_threads()
        if thread.name.startswith(f"{PREFIX}-") and thread is not current_thread()
    ]


class Watcher:
    """Sees who is connected, through a connection beside the test database."""

    def __init__(self) -> None:
        self.opened: psycopg.Connection[Any] | None = None

    def product_connections(self) -> list[tuple[int, str]]:
        """Return (pid, application_name) of our connections to the test database."""
        return self._opened().execute(
            "SELECT pid, application_name FROM pg_stat_activity"
            " WHERE datname = %s AND starts_with(application_name, %s)",
            [connection.settings_dict["NAME"], PREFIX],
        ).fetchall()  # fmt: skip

    def blocked(self, database: str = "") -> int:
        """Return how many sessions of a database wait for a lock.

        Args:
            database: Its name; the test database's, if none is given.
        """
        rows = self._opened().execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = %s AND wait_event_type = 'Lock'",
            [database or connection.settings_dict["NAME"]],
        ).fetchall()  # fmt: skip
        blocked: int = rows[0][0]
        return blocked

    def close(self) -> None:
        """Disconnect."""
        if self.opened is not None:
            self.opened.close()

    def _opened(self) -> psycopg.Connection[Any]:
        if self.opened is None or self.opened.closed:
            self.opened = psycopg.connect(
                **_connection_parameters(dbname="postgres"), autocommit=True
            )
        return self.opened


@pytest.fixture(scope="session")
def watcher() -> Iterator[Watcher]:
    """Return who sees all sessions of the test database."""
    with closing(Watcher()) as watcher:
        yield watcher


def _connection_parameters(**others: object) -> dict[str, Any]:
    given = connections["default"].get_connection_params()
    for djangos_own in ("cursor_factory", "context", "prepare_threshold", "pool"):
        given.pop(djangos_own, None)
    return given | others


@pytest.fixture(scope="session")
def connection_parameters() -> Callable[..., dict[str, Any]]:
    """Return a function that gives what ``psycopg.connect`` takes for the database."""
    return _connection_parameters


@pytest.fixture
def connect(transactional_db: None) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """Return a function that opens plain, independent, autocommit connections."""
    with ExitStack() as stack:

        def opened(**others: object) -> psycopg.Connection[Any]:
            parameters = _connection_parameters(autocommit=True, **others)
            return stack.enter_context(closing(psycopg.connect(**parameters)))

        yield opened


@pytest.fixture
def new_session(transactional_db: None) -> Iterator[Callable[..., WorkerSession]]:
    """Return a function that makes workers' sessions, each independent."""
    numbers = count(1)
    with ExitStack() as stack:

        def made(**options: Any) -> WorkerSession:
            name = f"{PREFIX} test {next(numbers)}"
            session = WorkerSession("default", name=name, **options)
            stack.callback(session.close)
            return session

        yield made


@pytest.fixture
def session(new_session: Callable[..., WorkerSession]) -> WorkerSession:
    """Return a worker's session: a second one beside Django's connection."""
    return new_session()
