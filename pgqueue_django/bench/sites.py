"""Where the bench's processes work: settings with the bench's databases, no more."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from pgqueue_django import conf
from pgqueue_django.bench.errors import BenchError

DEFAULT: Final = "default"
SECOND: Final = "second"
"""Aliases of the bench's databases."""

TASK_MODULE: Final = "pgqueue_django.bench.tasks"

# Of no use to a connection of the bench, or in its way: names by which it finds them.
_NOT_OURS = ("pool", "application_name", "assume_role")


@dataclass(frozen=True, slots=True)
class Site:
    """Settings for a process of the bench; can be sent to one.

    Args:
        databases: ``DATABASES``, of the bench's own databases.
        pgqueue: ``PGQUEUE``.
    """

    databases: Mapping[str, Mapping[str, Any]]
    pgqueue: Mapping[str, Any]

    def configure(self) -> None:
        """Set Django up in this process, with the app alone."""
        settings.configure(
            DATABASES={alias: dict(one) for alias, one in self.databases.items()},
            INSTALLED_APPS=["pgqueue_django"],
            PGQUEUE=dict(self.pgqueue),
            USE_TZ=True,
        )
        django.setup()

    def only(self, alias: str) -> "Site":
        """Return a site whose one database is that of an alias."""
        return replace(self, databases={DEFAULT: self.databases[alias]})

    def with_settings(self, **changes: Any) -> "Site":
        """Return a site with other entries in ``PGQUEUE``.

        Raises:
            BenchError: This version does not know one, or a value is wrong.
        """
        pgqueue = {**self.pgqueue, **changes}
        try:
            conf.read(pgqueue)
        except ImproperlyConfigured as error:
            raise BenchError(str(error)) from error
        return replace(self, pgqueue=pgqueue)


def of_project(alias: str, names: Mapping[str, str]) -> Site:
    """Make a site of the project's server and ``PGQUEUE``.

    Args:
        alias: The project's alias of the database with the jobs.
        names: The bench's databases on that server, by their aliases.
    """
    given = connections.settings[alias]
    shared = {
        "ENGINE": "django.db.backends.postgresql",
        **{key: given[key] for key in ("USER", "PASSWORD", "HOST", "PORT")},
        "OPTIONS": {k: v for k, v in given["OPTIONS"].items() if k not in _NOT_OURS},
    }
    own = dict(getattr(settings, "PGQUEUE", {}))
    return Site(
        {name: {**shared, "NAME": database} for name, database in names.items()},
        {**own, "TASK_MODULES": [TASK_MODULE]},
    )
