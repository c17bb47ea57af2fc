"""Connections to PostgreSQL: Django's, and the workers' own.

The only package that imports psycopg. Whatever the driver raises leaves here as one of
``django.db.utils``' errors, so that callers know one set of them.
"""

from pgqueue_django.db.errors import (
    is_bad_value,
    is_connection_error,
    is_missing_table,
    is_passing,
)
from pgqueue_django.db.sessions import DjangoSession, Session
from pgqueue_django.db.worker_session import WorkerSession

__all__ = [
    "DjangoSession",
    "Session",
    "WorkerSession",
    "is_bad_value",
    "is_connection_error",
    "is_missing_table",
    "is_passing",
]
