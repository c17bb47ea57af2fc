"""Every statement is one that the server takes, and one that somebody uses."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from django.db import connection
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

import pgqueue_django
from pgqueue_django import sql

ROOT = Path(pgqueue_django.__file__).parent
MODULES = [
    f"pgqueue_django.sql.{m.name}"
    for m in iter_modules(sql.__path__)
    if m.name[0] != "_"
]


def _constants() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        for name, value in vars(import_module(module)).items():
            if name.isupper() and isinstance(value, str):
                yield module, name


CONSTANTS = sorted(_constants())
STATEMENTS = [(m, n) for m, n in CONSTANTS if not n.startswith("_")]


class _AnyValue(dict[str, None]):
    """NULL for whatever a statement asks for."""

    def __missing__(self, key: str) -> None:
        return None


@pytest.mark.django_db
@pytest.mark.parametrize(("module", "name"), STATEMENTS)
def test_the_server_prepares_it(module, name):
    """As psycopg does: its own placeholders, and no types but those of the text."""
    statement = getattr(import_module(module), name)
    connection.ensure_connection()
    query = PostgresQuery(Transformer(connection.connection))
    query.convert(statement, _AnyValue())

    prepared = connection.connection.pgconn.prepare(b"", query.query, None)

    assert not prepared.error_message, prepared.error_message.decode()


def test_there_are_statements():
    assert len(STATEMENTS) > 20


@pytest.mark.parametrize(("module", "name"), STATEMENTS)
def test_a_manager_uses_it(module, name):
    short = module.rpartition(".")[2]
    for path in (ROOT / "managers").glob("*.py"):
        tree = ast.parse(path.read_text())
        aliases = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "pgqueue_django.sql"
            for alias in node.names
            if alias.name == short
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == name
                and isinstance(node.value, ast.Name)
                and node.value.id in aliases
            ):
                return
    pytest.fail(f"{name} has no user")


@pytest.mark.parametrize(("module", "name"), sorted(set(CONSTANTS) - set(STATEMENTS)))
def test_a_statement_uses_the_part(module, name):
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text())

    assert any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize(("module", "name"), STATEMENTS)
def test_no_statement_keeps_a_session_or_names_a_clock_of_its_own(module, name):
    """Rules 2 and 9: statement_timestamp() alone, and no session state."""
    statement = getattr(import_module(module), name)

    for banned in ("now()", "clock_timestamp", "CURRENT_", "advisory", "SET LOCAL"):
        assert banned not in statement


def test_no_statement_asks_for_an_advisory_lock():
    """CON-18: somebody else could hold it, for as long as he likes."""
    sources = [path for path in ROOT.rglob("*.py") if "bench" not in path.parts]

    assert len(sources) > 100
    assert [path for path in sources if "advisory" in path.read_text().lower()] == []
