"""How PostgreSQL plans a statement: as a prepared one, custom and generic."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

_numbers = count()


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan, as EXPLAIN's JSON tells it."""

    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield every node, parents first."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.get("Plans", ()))

    def scans_of(self, table: str) -> list[dict[str, Any]]:
        """Return the nodes that read a table, bitmaps' index parts included."""
        return [
            node
            for node in self.nodes()
            if node["Node Type"] != "ModifyTable"
            and (
                node.get("Relation Name") == table
                or node.get("Index Name", "").startswith(table)
            )
        ]

    def sorts_of(self, table: str) -> list[dict[str, Any]]:
        """Return the nodes that sort rows read from a table."""
        return [
            node
            for node in self.nodes()
            if node["Node Type"] in ("Sort", "Incremental Sort")
            and Plan({**node, "Plans": _inputs(node)}).scans_of(table)
        ]

    def indexes(self) -> set[str]:
        """Return the indexes that it reads."""
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    def node_types(self) -> set[str]:
        """Return what its nodes are."""
        return {node["Node Type"] for node in self.nodes()}

    def __str__(self) -> str:
        return json.dumps(self.root, indent=1)


def _inputs(node: dict[str, Any]) -> list[dict[str, Any]]:
    # A CTE hangs on the node at the top, whatever that node reads.
    return [
        child
        for child in node.get("Plans", ())
        if child["Parent Relationship"] != "InitPlan"
    ]


def prepare(
    connection: psycopg.Connection[Any],
    statement: LiteralString,
    params: dict[str, object],
) -> tuple[str, list[object]]:
    """Prepare a statement on the server, as psycopg itself would.

    Args:
        connection: Where.
        statement: With ``%(name)s`` placeholders.
        params: A value for each.

    Returns:
        The prepared statement's name, and its values in the order of ``$1, $2, …``.
    """
    query = PostgresQuery(Transformer(connection))
    query.convert(statement, params)
    name = f"prepared_{next(_numbers)}"
    result = connection.pgconn.prepare(name.encode(), query.query, query.types)
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    return name, [params[key] for key in query._order or ()]


def explain(
    connection: psycopg.Connection[Any],
    statement: LiteralString,
    params: dict[str, object],
    *,
    mode: str,
) -> Plan:
    """Return a prepared statement's plan; ``mode`` is "custom" or "generic"."""
    connection.execute(f"SET plan_cache_mode = force_{mode}_plan")
    name, values = prepare(connection, statement, params)
    execute = sql.SQL("EXECUTE {}").format(sql.Identifier(name))
    if values:
        given = sql.SQL(", ").join(map(sql.Literal, values))
        execute = sql.SQL("{} ({})").format(execute, given)
    explained = sql.SQL("EXPLAIN (FORMAT JSON) {}").format(execute)
    (row,) = connection.execute(explained).fetchall()
    connection.execute(sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)))
    return Plan(row[0][0]["Plan"])
