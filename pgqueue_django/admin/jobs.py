"""``Job`` in the admin: a list, a page to read, and the action *cancel*."""

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from pgqueue_django import limits
from pgqueue_django.admin.cancelling import Cancelled, cancel
from pgqueue_django.admin.changelist import CappedPaginator, JobChangeList
from pgqueue_django.admin.details import raw_url, show_errors, show_json
from pgqueue_django.admin.filters import QueueFilter, TaskFilter
from pgqueue_django.admin.permissions import ReadOnlyAdmin
from pgqueue_django.admin.raw import raw_json
from pgqueue_django.admin.spans import in_words
from pgqueue_django.managers.job_details import JsonField
from pgqueue_django.models import Job
from pgqueue_django.stats.jobs import database, parse_id

_NOTHING = "-"
_JSON = ("args", "kwargs", "result", "errors", "metadata")
_LOOKUPS = frozenset({"state__exact", "state", "queue", "task"})


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs, newest first.

    Nothing can be added, changed or deleted here, since only the queue's own verbs keep
    a job's columns in step. Who may change jobs may cancel them.

    The list reads and counts a bounded part of the table in bounded time, and no JSON
    column. The page of a job reads those as text and in part, so that no value breaks
    it.
    """

    list_display = (
        "id",
        "state_mark",
        "task",
        "queue",
        "priority",
        "run_at",
        "attempts_of",
        "age",
    )
    list_display_links = ("id", "task")
    list_filter = ("state", QueueFilter, TaskFilter)
    list_per_page = 50
    list_max_show_all = 200
    # Other columns have no index that would sort a large table.
    sortable_by = ("id",)
    ordering = ("-id",)
    search_fields = ("id",)
    search_help_text = "An id, or exactly a task, a queue or an idempotency key."
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = ("cancel_jobs",)
    fieldsets = (
        (
            None,
            {"fields": ("state_mark", "attempts_of", "task", "queue", "priority")},
        ),
        (
            "Call",
            {
                "fields": (
                    "arguments",
                    "keyword_arguments",
                    "idempotency_key",
                    "unique_key",
                )
            },
        ),
        ("Outcome", {"fields": ("progress", "result_preview", "attempt_errors")}),
        (
            "Times",
            {
                "fields": (
                    "exact_age",
                    "enqueued_at",
                    "run_at",
                    "first_claimed_at",
                    "claimed_at",
                    "finished_at",
                )
            },
        ),
        ("Lease", {"fields": ("worker", "lease_expires_at", "time_limit")}),
    )

    class Media:
        css: ClassVar = {"all": ["pgqueue_django/admin.css"]}

    # --- list -------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Return jobs without their JSON columns, and with their age."""
        age = ExpressionWrapper(Now() - F("enqueued_at"), output_field=DurationField())
        jobs: QuerySet[Job] = super().get_queryset(request).using(database())
        return jobs.defer(*_JSON).annotate(current_age=age)

    def get_changelist(
        self,
        request: HttpRequest,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> type[JobChangeList]:
        """Return the list that keeps within bounds."""
        return JobChangeList

    def lookup_allowed(
        self,
        lookup: str,
        value: str,  # noqa: ARG002
        request: HttpRequest,  # noqa: ARG002
    ) -> bool:
        """Allow what the filters use: no other column has an index."""
        return lookup in _LOOKUPS

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[Job],
        search_term: str,
    ) -> tuple[QuerySet[Job], bool]:
        """Find jobs by id, task, queue or idempotency key, each as it is, whole."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if len(term) > limits.IDEMPOTENCY_KEY_CHARS:
            return queryset.none(), False
        wanted = Q(idempotency_key=term) | Q(task=term) | Q(queue=term)
        if id_ := parse_id(term):
            wanted = Q(pk=id_) | Q(idempotency_key=term)
        return queryset.filter(wanted), False

    # --- columns and fields -----------------------------------------------------------

    @admin.display(description="state")
    def state_mark(self, job: Job) -> SafeString:
        """Show the state with a colour of its own."""
        template = '<span class="pgqueue-state pgqueue-{}">{}</span>'
        return format_html(template, job.state, job.state)

    @admin.display(description="attempts")
    def attempts_of(self, job: Job) -> str:
        """Show attempts as "2/5"."""
        return f"{job.attempts}/{job.max_attempts}"

    @admin.display(description="age")
    def age(self, job: Job) -> str:
        """Show the time since the job was enqueued."""
        return in_words(_age_of(job))

    @admin.display(description="age")
    def exact_age(self, job: Job) -> str:
        """Show the time since the job was enqueued, to the minute or so."""
        return in_words(_age_of(job), units=2)

    @admin.display(description="time limit")
    def time_limit(self, job: Job) -> str:
        """Show how long an attempt may take."""
        if job.timeout_seconds is None:
            return _NOTHING
        return f"{job.timeout_seconds:g} s"

    @admin.display(description="arguments")
    def arguments(self, job: Job) -> str:
        """Show the positional arguments."""
        return self._json(job, "args")

    @admin.display(description="keyword arguments")
    def keyword_arguments(self, job: Job) -> str:
        """Show the keyword arguments."""
        return self._json(job, "kwargs")

    @admin.display(description="result")
    def result_preview(self, job: Job) -> str:
        """Show what the handler returned."""
        return self._json(job, "result")

    @admin.display(description="progress and metadata")
    def progress(self, job: Job) -> str:
        """Show what the handler has said of its job."""
        return self._json(job, "metadata")

    @admin.display(description="errors, newest first")
    def attempt_errors(self, job: Job) -> str:
        """Show what went wrong in each attempt."""
        url = raw_url(self.admin_site.name, job.pk, "errors")
        return show_errors(job.pk, url) or _NOTHING

    def _json(self, job: Job, field: JsonField) -> str:
        url = raw_url(self.admin_site.name, job.pk, field)
        return show_json(job.pk, field, url) or _NOTHING

    # --- views and actions ------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Return the admin's URLs, with one for a whole JSON column."""
        raw = path(
            "<str:job_id>/raw/<str:field>/",
            self.admin_site.admin_view(self.raw_view),
            name="pgqueue_django_job_raw",
        )
        return [raw, *super().get_urls()]

    def raw_view(
        self, request: HttpRequest, job_id: str, field: str
    ) -> HttpResponseBase:
        """Send a JSON column to a user who may view jobs."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return raw_json(request, job_id, field)

    @admin.action(description="Cancel selected jobs", permissions=["cancel"])
    def cancel_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Cancel the selected jobs that have not finished."""
        cancelled = cancel(queryset, request.user.pk)
        everywhere = request.POST.get("select_across") == "1"
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        rest = cancelled.busy if everywhere else len(set(selected)) - cancelled.done
        self._tell(request, cancelled, rest)

    def _tell(self, request: HttpRequest, cancelled: Cancelled, rest: int) -> None:
        words = f"{_jobs(cancelled.done)} cancelled."
        if rest:
            words += f" {_jobs(rest)} not: finished before, or locked just now."
        if cancelled.stopped:
            words += " There are more: run the action again."
        level = messages.WARNING if rest or cancelled.stopped else messages.SUCCESS
        self.message_user(request, words, level)


def _age_of(job: Job) -> timedelta:
    age: timedelta = job.current_age  # type: ignore[attr-defined] # annotated
    return age


def _jobs(count: int) -> str:
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"
