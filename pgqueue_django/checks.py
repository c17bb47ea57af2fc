"""System checks.

Those of the server run with ``manage.py check --database ALIAS`` and with ``migrate``,
the others always.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import django
from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from django.db import DatabaseError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue_django.conf import read
from pgqueue_django.exceptions import InvalidSettings

OLDEST_SERVER = 14


@checks.register("pgqueue")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Check ``settings.PGQUEUE``."""
    try:
        read(getattr(settings, "PGQUEUE", {}))
    except InvalidSettings as error:
        return [checks.Error(str(error), id="pgqueue.E001")]
    return []


@checks.register("pgqueue")
def check_framework(**_: Any) -> list[CheckMessage]:
    """Check that Django's task framework, or its backport, is there."""
    try:
        from pgqueue_django import compat  # noqa: F401
    except ImportError as error:
        return [
            checks.Error(
                "The task framework is missing.", hint=str(error), id="pgqueue.E002"
            )
        ]
    return []


@checks.register("pgqueue")
def check_backends(**_: Any) -> list[CheckMessage]:
    """Check ``settings.TASKS`` where Django does not do it itself.

    Django 6.0 and later does, and so does the backport once it is an installed app.
    """
    if django.VERSION >= (6, 0) or apps.is_installed("django_tasks"):
        return []
    try:
        from pgqueue_django.compat import task_backends
    except ImportError:
        return []
    return [message for backend in task_backends.all() for message in backend.check()]


@checks.register("pgqueue")
def check_engine(**_: Any) -> list[CheckMessage]:
    """Check that the jobs' database is PostgreSQL."""
    connection = connections[_alias()]
    if connection.vendor == "postgresql":
        return []
    return [
        checks.Error(
            f"The job table's database {connection.alias!r} is "
            f"{connection.display_name}, not PostgreSQL.",
            hint="Point DATABASES at PostgreSQL, or route the app 'pgqueue_django' to "
            "an alias that is, by DATABASE_ROUTERS.",
            id="pgqueue.E003",
        )
    ]


@checks.register(checks.Tags.database)
def check_server(
    *,
    app_configs: Sequence[AppConfig] | None = None,  # noqa: ARG001 - Django passes it
    databases: Sequence[str] | None = None,
    **_: Any,
) -> list[CheckMessage]:
    """Check the server's version and encoding, where Django allows a look at it."""
    alias = _alias()
    if alias not in (databases or ()) or connections[alias].vendor != "postgresql":
        return []
    try:
        return list(_server_problems(connections[alias]))
    except DatabaseError as error:
        reason = str(error).partition("\n")[0]
        message = f"The job table's database {alias!r} does not answer: {reason}"
        return [checks.Warning(message, id="pgqueue.W001")]


def _server_problems(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num')::int / 10000,"
            " current_setting('server_encoding')"
        )
        version, encoding = cursor.fetchone() or (0, "")
    if version < OLDEST_SERVER:
        yield checks.Error(
            f"The job table's server is PostgreSQL {version}; {OLDEST_SERVER} is the "
            "oldest that is supported.",
            id="pgqueue.E004",
        )
    if encoding != "UTF8":
        yield checks.Error(
            f"The job table's database is encoded in {encoding}, not UTF8: jobs with "
            "other characters cannot be stored.",
            hint="Create a database with ENCODING 'UTF8' and move the data there.",
            id="pgqueue.E005",
        )


def _alias() -> str:
    from pgqueue_django.models import Job

    return router.db_for_write(Job)
