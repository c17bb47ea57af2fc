"""What a migration of the queue's tables must not do while the queue is at work."""

import re
from collections.abc import Iterator
from typing import Any

from django.contrib.postgres import operations as postgres
from django.db import migrations
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED

_BOUNDED = re.compile(r"SET LOCAL lock_timeout = '\d+m?s'")


def objections(migration: migrations.Migration) -> list[str]:
    """Return what would keep producers and workers waiting, or break old ones.

    Those of the release before go on while a migration runs, and after it. What is
    not known to be harmless to them is an objection.
    """
    return [
        f"{operation.describe()}: {reason}"
        for operation in migration.operations
        for reason in _reasons(operation, migration)
    ]


def _reasons(operation: Operation, migration: migrations.Migration) -> Iterator[str]:
    match operation:
        case migrations.CreateModel() | migrations.RunSQL() if _is_harmless(operation):
            pass
        case migrations.AddField(field=field):
            yield from _about_column(field)
            yield from _about_waiting(migration)
        case postgres.AddConstraintNotValid():
            yield from _about_waiting(migration)
        case postgres.ValidateConstraint():
            if len(migration.operations) > 1:
                yield "reads the table under the locks of the other operations"
        case postgres.AddIndexConcurrently() | postgres.RemoveIndexConcurrently():
            if migration.atomic:
                yield "cannot run in a transaction: atomic = False"
        case _:
            yield "is not known to be harmless"


def _is_harmless(operation: Operation) -> bool:
    return not isinstance(operation, migrations.RunSQL) or _bounds_waits(operation)


def _about_column(field: Any) -> Iterator[str]:
    if not field.null and field.db_default is NOT_PROVIDED:
        yield "old producers insert without it"
    if field.unique or field.db_index or field.remote_field:
        yield "builds an index, or looks at another table, under its lock"


def _about_waiting(migration: migrations.Migration) -> Iterator[str]:
    first = migration.operations[0]
    if not (migration.atomic and _bounds_waits(first)):
        yield "waits without end, and all others behind it"


def _bounds_waits(operation: Operation) -> bool:
    return isinstance(operation, migrations.RunSQL) and bool(
        _BOUNDED.fullmatch(str(operation.sql))
    )
