"""``WorkerProcess`` in the admin: a list of who is there."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from pgqueue_django.admin.permissions import ReadOnlyAdmin
from pgqueue_django.admin.spans import in_words
from pgqueue_django.models import WorkerProcess
from pgqueue_django.stats.jobs import database
from pgqueue_django.stats.workers import is_silent


@admin.register(WorkerProcess)
class WorkerProcessAdmin(ReadOnlyAdmin):
    """Worker processes as they were at their last beats; only to look at.

    Those that stopped cleanly are gone. One that was killed is shown as silent.
    """

    list_display = (
        "name",
        "seen",
        "host",
        "pid",
        "queues",
        "threads",
        "async_slots",
        "running",
        "version",
        "started_at",
    )
    ordering = ("host", "name")
    list_per_page = 200
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return all, with the time since their last beats by the database's clock."""
        span = ExpressionWrapper(Now() - F("seen_at"), DurationField())
        all_: QuerySet[Any] = super().get_queryset(request).using(database())
        found: QuerySet[Any] = all_.annotate(silence=span)
        return found

    @admin.display(description="seen", ordering="-seen_at")
    def seen(self, worker: Any) -> SafeString:
        """Return how long ago the last beat was, and what to think of it."""
        silence: timedelta = worker.silence
        text = f"{in_words(silence)} ago"
        if is_silent(silence.total_seconds()):
            return format_html("<strong>{}, silent</strong>", text)
        return format_html("{}", text)
