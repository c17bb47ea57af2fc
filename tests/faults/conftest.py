"""The bench's books beside the test database's job table."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench import ledger
from pgqueue_django import signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.sites import DEFAULT

_NO_BOOKS = (
    "DROP TRIGGER bench_note_turn ON pgqueue_job; DROP FUNCTION bench_note_turn;"
    " DROP TABLE bench_turn, bench_mark, bench_worker"
)


@pytest.fixture
def books(transactional_db: None) -> Iterator[Connection]:
    """Return a connection to a database with open books."""
    with connect(DEFAULT) as connection:
        ledger.open_books(connection)
        yield connection
        connection.execute(_NO_BOOKS, prepare=False)


@pytest.fixture
def work(
    books: Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Return a function that does what a handler of the bench does."""
    # Workers of other tests may have run in this process.
    monkeypatch.setattr(ledger._Process, "identity", "")

    def done(attempt: Attempt, *, to_its_end: bool = True) -> str:
        signals.job_started.send(None, attempt=attempt)
        if not to_its_end:
            ledger.mark("began")
            return ledger.token()
        with ledger.entered() as token:
            return token

    yield done
    ledger.close()


@pytest.fixture
def by_hand(books: Connection) -> Callable[..., Any]:
    """Return a function that does to the database what no verb would do."""
    return books.execute
