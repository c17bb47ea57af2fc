"""Connections of the bench's own to PostgreSQL: plain psycopg, autocommit."""

from typing import Any

import psycopg
from django.db import connections

Connection = psycopg.Connection[tuple[Any, ...]]

# What Django puts among a connection's parameters for its own cursors.
_DJANGOS_OWN = ("cursor_factory", "context", "prepare_threshold", "pool")


def connect(alias: str, **changes: Any) -> Connection:
    """Open a connection to the server of an alias.

    Args:
        alias: Of ``settings.DATABASES``.
        **changes: Parameters that replace the alias', such as ``dbname``.

    Raises:
        psycopg.Error: It cannot be opened.
    """
    wrapper = connections[alias]
    given = wrapper.get_connection_params()
    for name in _DJANGOS_OWN:
        given.pop(name, None)
    return psycopg.connect(
        **{
            **given,
            "application_name": "pgqueue bench",
            "autocommit": True,
            "prepare_threshold": 0,
            **changes,
        }
    )
