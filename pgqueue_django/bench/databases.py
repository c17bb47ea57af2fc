"""Databases that live as long as a bench, beside the project's own."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

import psycopg
from psycopg import sql

from pgqueue_django.bench.connecting import Connection, connect
from pgqueue_django.bench.errors import BenchError
from pgqueue_django.bench.sites import DEFAULT, SECOND

PREFIX = "pgqueue_bench_"


@contextmanager
def own_databases(alias: str, count: int) -> Iterator[dict[str, str]]:
    """Make databases on an alias' server, and drop them whatever happens.

    Args:
        alias: Of ``settings.DATABASES``. Its own database is not touched.
        count: 1 or 2.

    Yields:
        The new databases' names, by the bench's aliases.

    Raises:
        BenchError: The server is not there, or does not let us.
    """
    common = f"{PREFIX}{uuid4().hex[:10]}"
    names = {each: f"{common}_{each}" for each in (DEFAULT, SECOND)[:count]}
    with _server(alias) as server:
        try:
            for name in names.values():
                _create(server, name)
            yield names
        finally:
            for name in names.values():
                _drop(alias, server, name)


@contextmanager
def _server(alias: str) -> Iterator[Connection]:
    try:
        connection = _connect_anywhere(alias)
    except psycopg.Error as error:
        raise BenchError(
            f"the server cannot be reached: {_first_line(error)}"
        ) from error
    with connection:
        yield connection


def _connect_anywhere(alias: str) -> Connection:
    # Not to the project's own database, where there is another.
    with suppress(psycopg.OperationalError):
        return connect(alias, dbname="postgres")
    return connect(alias)


def _create(server: Connection, name: str) -> None:
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'")
    try:
        server.execute(statement.format(sql.Identifier(name)))
    except psycopg.Error as error:
        raise BenchError(
            f"no database can be made for the bench: {_first_line(error)}"
        ) from error


def _drop(alias: str, server: Connection, name: str) -> None:
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    dropping = statement.format(sql.Identifier(name))
    try:
        server.execute(dropping)
    except psycopg.OperationalError:
        # The connection may have broken meanwhile, or been cut short by a signal.
        with _connect_anywhere(alias) as again:
            again.execute(dropping)


def _first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]
