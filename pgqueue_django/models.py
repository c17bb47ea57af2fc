"""The job table: a row is a job, and the row alone decides what happens to it.

Beside it stand the counters, which say what has happened, and the workers, which say
that they are there. Both decide nothing.
"""

from collections.abc import Iterable
from typing import ClassVar

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Greatest, Least
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThanOrEqual

from pgqueue_django import limits
from pgqueue_django.events import Event, Grain
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.states import FINISHED, LIVE, State

_RUNNING = Q(state=State.RUNNING)

_INSTANTS = (
    "run_at",
    "enqueued_at",
    "lease_expires_at",
    "first_claimed_at",
    "claimed_at",
    "finished_at",
)


# In the order of the enumeration, so that no migration finds another.
_LIVE = [state for state in State if state in LIVE]


def _instant(text: str) -> Func:
    """Return an instant as a constant of the statement, the same under any USE_TZ."""
    return Func(
        template=f"timestamptz '{text} 00:00:00+00'",
        output_field=models.DateTimeField(),
    )


# Of each check the server reads the text anew for every statement that writes: what
# follows says it as briefly as can be, which spares a claim a tenth of its time.


def _condition(template: str, *expressions: F | Func, **more: str) -> Func:
    return Func(
        *expressions, **more, output_field=models.BooleanField(), template=template
    )


def _one_of(name: str, values: Iterable[str]) -> Func:
    return _condition(f"%(expressions)s = ANY ('{{{','.join(values)}}}')", F(name))


def _present(name: str) -> Func:
    return _condition("%(expressions)s IS NOT NULL", F(name))


def _both_or_neither(one: Func, other: Func) -> Func:
    return _condition("(%(expressions)s)", one, other, arg_joiner=") = (")


def _readable(earliest: F | Func, latest: F | Func) -> Q:
    """Refuse infinity and what Python's datetime cannot hold in every time zone."""
    return GreaterThanOrEqual(earliest, _instant("1970-01-01")) & LessThanOrEqual(
        latest, _instant("9000-01-01")
    )


class Job(models.Model):
    """One enqueued call of a task.

    Instants come from the database's clock. Rows are changed by the manager's verbs
    only: each writes exactly the columns of its transition, guarded by the lease token
    where a worker holds the job. ``save()`` knows nothing of that.
    """

    id = models.BigAutoField(primary_key=True)
    queue = models.CharField(max_length=limits.QUEUE_CHARS)
    task = models.CharField(max_length=limits.TASK_CHARS)
    args = models.JSONField(default=list)
    kwargs = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=State.choices)
    priority = models.SmallIntegerField(default=limits.DEFAULT_PRIORITY)
    run_at = models.DateTimeField()
    enqueued_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    max_attempts = models.IntegerField(default=limits.DEFAULT_MAX_ATTEMPTS)
    timeout_seconds = models.FloatField(null=True, blank=True)
    # NULL is "no key", which a unique index must tell from "".
    idempotency_key = models.CharField(  # noqa: DJ001
        max_length=limits.IDEMPOTENCY_KEY_CHARS, null=True, blank=True
    )
    unique_key = models.CharField(  # noqa: DJ001 - as above
        max_length=limits.UNIQUE_KEY_CHARS, null=True, blank=True
    )
    # Who holds the job, or who ended it; empty when its newest attempt is in `errors`.
    worker = models.CharField(max_length=limits.WORKER_CHARS, blank=True, default="")
    lease_token = models.UUIDField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    first_claimed_at = models.DateTimeField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    # What the handler saved of its own accord; under keys with "_", what the queue did.
    metadata = models.JSONField(null=True, blank=True)
    # Newest last: {attempt, at, worker, exception, message, traceback}.
    errors = models.JSONField(default=list)

    objects = JobManager()

    class Meta:
        db_table = "pgqueue_job"
        default_permissions = ("add", "view", "change")
        get_latest_by = "id"
        indexes: ClassVar = [
            models.Index(
                name="pgqueue_job_claim",
                fields=["queue", "-priority", "run_at", "id"],
                condition=Q(state=State.QUEUED),
            ),
            models.Index(
                name="pgqueue_job_due",
                fields=["run_at"],
                # So that counting them by queue reads nothing but this.
                include=["queue"],
                condition=Q(state=State.SCHEDULED),
            ),
            models.Index(
                name="pgqueue_job_unserved",
                fields=["queue", "task", "id"],
                condition=Q(state=State.UNSERVED),
            ),
            # Not on lease_expires_at: a renewal then touches no index at all.
            models.Index(
                name="pgqueue_job_running",
                fields=["queue", "id"],
                condition=_RUNNING,
            ),
            models.Index(
                name="pgqueue_job_finished",
                fields=["queue", "state", "finished_at"],
                condition=Q(finished_at__isnull=False),
            ),
            # For people: there are few of these among millions that succeeded.
            models.Index(
                name="pgqueue_job_unsuccessful",
                fields=["state", "id"],
                condition=Q(state__in=[State.CANCELLED, State.DEAD]),
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                name="pgqueue_job_idempotency_key_once_per_queue",
                fields=["queue", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
            ),
            # What moves a job from one live state to another never meets it.
            models.UniqueConstraint(
                name="pgqueue_job_unique_key_once_per_queue_while_live",
                fields=["queue", "unique_key"],
                condition=Q(unique_key__isnull=False, state__in=_LIVE),
            ),
            models.CheckConstraint(
                name="pgqueue_job_state_known",
                condition=_one_of("state", State.values),
            ),
            models.CheckConstraint(
                name="pgqueue_job_leased_iff_running",
                condition=_both_or_neither(
                    _one_of("state", [State.RUNNING]), _present("lease_token")
                )
                & _both_or_neither(
                    _present("lease_token"), _present("lease_expires_at")
                ),
            ),
            models.CheckConstraint(
                name="pgqueue_job_finish_time_iff_finished",
                condition=_both_or_neither(
                    _one_of("state", sorted(FINISHED)), _present("finished_at")
                ),
            ),
            # NULLs count for neither.
            models.CheckConstraint(
                name="pgqueue_job_instants_readable",
                condition=_readable(Least(*_INSTANTS), Greatest(*_INSTANTS)),
            ),
            models.CheckConstraint(
                name="pgqueue_job_priority_in_bounds",
                condition=Q(
                    priority__gte=limits.PRIORITY_MIN,
                    priority__lte=limits.PRIORITY_MAX,
                ),
            ),
            models.CheckConstraint(
                name="pgqueue_job_attempts_in_bounds",
                condition=Q(
                    attempts__gte=0,
                    max_attempts__gte=1,
                    max_attempts__lte=limits.MAX_ATTEMPTS_MAX,
                ),
            ),
            # NULL is neither true nor false, which is enough.
            models.CheckConstraint(
                name="pgqueue_job_timeout_in_bounds",
                condition=Q(
                    timeout_seconds__gt=0,
                    timeout_seconds__lte=limits.TIMEOUT_SECONDS_MAX,
                ),
            ),
            models.CheckConstraint(
                name="pgqueue_job_errors_is_a_list",
                condition=_condition(
                    "jsonb_typeof(%(expressions)s) = 'array'", F("errors")
                ),
            ),
            models.CheckConstraint(
                name="pgqueue_job_names_not_empty",
                condition=GreaterThan(
                    Least("queue", "task", "idempotency_key", "unique_key"), Value("")
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.pk} ({self.task}, {self.state})"


class Counter(models.Model):
    """How often something happened to jobs of a task, and how long it took in all.

    Rows are written by the statements that change jobs, in the same transaction, and
    merged into coarser ones later on: only sums over all rows mean something.
    """

    pk = models.CompositePrimaryKey(
        "grain", "shard", "starts_at", "le", "queue", "task", "event"
    )
    grain = models.CharField(max_length=6, choices=Grain.choices)
    # The process number of the server's session that writes the row; 0 is of all.
    shard = models.IntegerField()
    starts_at = models.DateTimeField()
    # Took no longer than so many seconds, and longer than the next smaller bound.
    le = models.FloatField()
    queue = models.CharField(max_length=limits.QUEUE_CHARS)
    task = models.CharField(max_length=limits.TASK_CHARS)
    event = models.CharField(max_length=20, choices=Event.choices)
    count = models.BigIntegerField()
    # Whole ones, as a sum of fractions depends on the order.
    microseconds = models.BigIntegerField()

    class Meta:
        db_table = "pgqueue_counter"
        default_permissions = ("view",)
        constraints: ClassVar = [
            models.CheckConstraint(
                name="pgqueue_counter_never_negative",
                condition=Q(count__gte=0, microseconds__gte=0),
            ),
            # NaN is above infinity.
            models.CheckConstraint(
                name="pgqueue_counter_le_in_bounds",
                condition=Q(le__gt=0, le__lte=float("inf")),
            ),
            models.CheckConstraint(
                name="pgqueue_counter_grain_known",
                condition=_one_of("grain", Grain.values),
            ),
            models.CheckConstraint(
                name="pgqueue_counter_event_known",
                condition=_one_of("event", Event.values),
            ),
            models.CheckConstraint(
                name="pgqueue_counter_starts_at_readable",
                condition=_readable(F("starts_at"), F("starts_at")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.count} {self.event} ({self.task})"


class WorkerProcess(models.Model):
    """A worker process as it was at its last beat; for people to look at.

    Nothing is decided by it: what a dead worker held is found by the leases.
    """

    name = models.CharField(primary_key=True, max_length=limits.WORKER_CHARS)
    host = models.TextField()
    pid = models.IntegerField()
    queues = models.TextField()
    threads = models.IntegerField()
    async_slots = models.IntegerField()
    running = models.IntegerField()
    version = models.TextField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        db_table = "pgqueue_worker"
        default_permissions = ("view",)
        verbose_name_plural = "worker processes"

    def __str__(self) -> str:
        return f"worker {self.name}"
