"""Filters whose choices cost no look at the table."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from pgqueue_django.models import Job
from pgqueue_django.registry import registry

# A longer column is no help; the search box finds the rest.
_MOST_CHOICES: Final = 30


class _DeclaredFilter(admin.SimpleListFilter):
    """Offers what this process's tasks declare, and takes any other value too."""

    column: ClassVar[str]

    def declared(self) -> Iterable[str]:
        """Return the choices."""
        raise NotImplementedError

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002 - the signature is Django's
        model_admin: "admin.ModelAdmin[Any]",  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        """Return the choices, and the one that is in the URL."""
        names = list(islice(sorted(set(self.declared())), _MOST_CHOICES))
        asked = self.used_parameters.get(self.parameter_name or "")
        if asked and asked not in names:
            names.append(asked)
        return [(name, name) for name in names]

    def has_output(self) -> bool:
        """Show it also for a single choice: there may be jobs of others."""
        return bool(self.lookup_choices)

    def queryset(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[Job],
    ) -> QuerySet[Job]:
        """Keep jobs with exactly that value."""
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})


class TaskFilter(_DeclaredFilter):
    """Jobs of one task."""

    title = "task"
    parameter_name = "task"
    column = "task"

    def declared(self) -> Iterable[str]:
        """Return the names of registered tasks."""
        return registry.names()


class QueueFilter(_DeclaredFilter):
    """Jobs of one queue."""

    title = "queue"
    parameter_name = "queue"
    column = "queue"

    def declared(self) -> Iterable[str]:
        """Return the queues that registered tasks name."""
        tasks = map(registry.find, registry.names())
        return (task.queue_name for task in tasks if task is not None)
