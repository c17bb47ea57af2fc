"""The job table, and beside it the counters and the workers."""

import django.db.models.functions.comparison
import django.db.models.lookups
from django.db import migrations, models

TABLE_OPTIONS = {
    "fillfactor": 80,
    "autovacuum_vacuum_scale_factor": 0.01,
    "autovacuum_vacuum_threshold": 2_000,
    "autovacuum_vacuum_insert_scale_factor": 0.05,
    "autovacuum_analyze_scale_factor": 0.05,
    "autovacuum_vacuum_cost_delay": 0,
}

COUNTER_OPTIONS = {
    "fillfactor": 50,
    "autovacuum_vacuum_scale_factor": 0.1,
    "autovacuum_vacuum_threshold": 2_000,
    "autovacuum_vacuum_cost_delay": 0,
}


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", models.CharField(max_length=100)),
                ("task", models.CharField(max_length=200)),
                ("args", models.JSONField(default=list)),
                ("kwargs", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("scheduled", "Scheduled"),
                            ("queued", "Queued"),
                            ("unserved", "Unserved"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("dead", "Dead"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=9,
                    ),
                ),
                ("priority", models.SmallIntegerField(default=0)),
                ("run_at", models.DateTimeField()),
                ("enqueued_at", models.DateTimeField()),
                ("attempts", models.IntegerField(default=0)),
                ("max_attempts", models.IntegerField(default=5)),
                ("timeout_seconds", models.FloatField(blank=True, null=True)),
                (
                    "idempotency_key",
                    models.CharField(blank=True, max_length=255, null=True),
                ),
                (
                    "unique_key",
                    models.CharField(blank=True, max_length=255, null=True),
                ),
                ("worker", models.CharField(blank=True, default="", max_length=200)),
                ("lease_token", models.UUIDField(blank=True, null=True)),
                ("lease_expires_at", models.DateTimeField(blank=True, null=True)),
                ("first_claimed_at", models.DateTimeField(blank=True, null=True)),
                ("claimed_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("result", models.JSONField(blank=True, null=True)),
                ("metadata", models.JSONField(blank=True, null=True)),
                ("errors", models.JSONField(default=list)),
            ],
            options={
                "db_table": "pgqueue_job",
                "get_latest_by": "id",
                "default_permissions": ("add", "view", "change"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "queued")),
                        fields=["queue", "-priority", "run_at", "id"],
                        name="pgqueue_job_claim",
                    ),
                    models.Index(
                        condition=models.Q(("state", "scheduled")),
                        fields=["run_at"],
                        include=("queue",),
                        name="pgqueue_job_due",
                    ),
                    models.Index(
                        condition=models.Q(("state", "unserved")),
                        fields=["queue", "task", "id"],
                        name="pgqueue_job_unserved",
                    ),
                    models.Index(
                        condition=models.Q(("state", "running")),
                        fields=["queue", "id"],
                        name="pgqueue_job_running",
                    ),
                    models.Index(
                        condition=models.Q(("finished_at__isnull", False)),
                        fields=["queue", "state", "finished_at"],
                        name="pgqueue_job_finished",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ["cancelled", "dead"])),
                        fields=["state", "id"],
                        name="pgqueue_job_unsuccessful",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("queue", "idempotency_key"),
                        name="pgqueue_job_idempotency_key_once_per_queue",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                ["scheduled", "queued", "unserved", "running"],
                            ),
                            ("unique_key__isnull", False),
                        ),
                        fields=("queue", "unique_key"),
                        name="pgqueue_job_unique_key_once_per_queue_while_live",
                    ),
                    models.CheckConstraint(
                        condition=models.Func(
                            models.F("state"),
                            output_field=models.BooleanField(),
                            template="%(expressions)s = ANY "
                            "('{scheduled,queued,unserved,running,"
                            "succeeded,dead,cancelled}')",
                        ),
                        name="pgqueue_job_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Func(
                                models.Func(
                                    models.F("state"),
                                    output_field=models.BooleanField(),
                                    template="%(expressions)s = ANY ('{running}')",
                                ),
                                models.Func(
                                    models.F("lease_token"),
                                    output_field=models.BooleanField(),
                                    template="%(expressions)s IS NOT NULL",
                                ),
                                arg_joiner=") = (",
                                output_field=models.BooleanField(),
                                template="(%(expressions)s)",
                            ),
                            models.Func(
                                models.Func(
                                    models.F("lease_token"),
                                    output_field=models.BooleanField(),
                                    template="%(expressions)s IS NOT NULL",
                                ),
                                models.Func(
                                    models.F("lease_expires_at"),
                                    output_field=models.BooleanField(),
                                    template="%(expressions)s IS NOT NULL",
                                ),
                                arg_joiner=") = (",
                                output_field=models.BooleanField(),
                                template="(%(expressions)s)",
                            ),
                        ),
                        name="pgqueue_job_leased_iff_running",
                    ),
                    models.CheckConstraint(
                        condition=models.Func(
                            models.Func(
                                models.F("state"),
                                output_field=models.BooleanField(),
                                template="%(expressions)s = ANY "
                                "('{cancelled,dead,succeeded}')",
                            ),
                            models.Func(
                                models.F("finished_at"),
                                output_field=models.BooleanField(),
                                template="%(expressions)s IS NOT NULL",
                            ),
                            arg_joiner=") = (",
                            output_field=models.BooleanField(),
                            template="(%(expressions)s)",
                        ),
                        name="pgqueue_job_finish_time_iff_finished",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.GreaterThanOrEqual(
                                django.db.models.functions.comparison.Least(
                                    "run_at",
                                    "enqueued_at",
                                    "lease_expires_at",
                                    "first_claimed_at",
                                    "claimed_at",
                                    "finished_at",
                                ),
                                models.Func(
                                    output_field=models.DateTimeField(),
                                    template="timestamptz '1970-01-01 00:00:00+00'",
                                ),
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.comparison.Greatest(
                                    "run_at",
                                    "enqueued_at",
                                    "lease_expires_at",
                                    "first_claimed_at",
                                    "claimed_at",
                                    "finished_at",
                                ),
                                models.Func(
                                    output_field=models.DateTimeField(),
                                    template="timestamptz '9000-01-01 00:00:00+00'",
                                ),
                            ),
                        ),
                        name="pgqueue_job_instants_readable",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("priority__gte", -100), ("priority__lte", 100)
                        ),
                        name="pgqueue_job_priority_in_bounds",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("attempts__gte", 0),
                            ("max_attempts__gte", 1),
                            ("max_attempts__lte", 10000),
                        ),
                        name="pgqueue_job_attempts_in_bounds",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("timeout_seconds__gt", 0),
                            ("timeout_seconds__lte", 31622400),
                        ),
                        name="pgqueue_job_timeout_in_bounds",
                    ),
                    models.CheckConstraint(
                        condition=models.Func(
                            models.F("errors"),
                            output_field=models.BooleanField(),
                            template="jsonb_typeof(%(expressions)s) = 'array'",
                        ),
                        name="pgqueue_job_errors_is_a_list",
                    ),
                    models.CheckConstraint(
                        condition=django.db.models.lookups.GreaterThan(
                            django.db.models.functions.comparison.Least(
                                "queue", "task", "idempotency_key", "unique_key"
                            ),
                            models.Value(""),
                        ),
                        name="pgqueue_job_names_not_empty",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Counter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "grain",
                        "shard",
                        "starts_at",
                        "le",
                        "queue",
                        "task",
                        "event",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "grain",
                    models.CharField(
                        choices=[
                            ("writer", "Writer"),
                            ("minute", "Minute"),
                            ("hour", "Hour"),
                            ("day", "Day"),
                            ("ever", "Ever"),
                        ],
                        max_length=6,
                    ),
                ),
                ("shard", models.IntegerField()),
                ("starts_at", models.DateTimeField()),
                ("le", models.FloatField()),
                ("queue", models.CharField(max_length=100)),
                ("task", models.CharField(max_length=200)),
                (
                    "event",
                    models.CharField(
                        choices=[
                            ("started", "Started"),
                            ("succeeded", "Succeeded"),
                            ("retried", "Retried"),
                            ("failed", "Failed"),
                            ("cancelled_by_handler", "Cancelled By Handler"),
                            ("lease_expired", "Lease Expired"),
                            ("lease_expired_dead", "Lease Expired Dead"),
                            ("cancelled", "Cancelled"),
                            ("cancelled_unstarted", "Cancelled Unstarted"),
                            ("requeued", "Requeued"),
                        ],
                        max_length=20,
                    ),
                ),
                ("count", models.BigIntegerField()),
                ("microseconds", models.BigIntegerField()),
            ],
            options={
                "db_table": "pgqueue_counter",
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("count__gte", 0), ("microseconds__gte", 0)),
                        name="pgqueue_counter_never_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("le__gt", 0), ("le__lte", float("inf"))),
                        name="pgqueue_counter_le_in_bounds",
                    ),
                    models.CheckConstraint(
                        condition=models.Func(
                            models.F("grain"),
                            output_field=models.BooleanField(),
                            template="%(expressions)s = ANY "
                            "('{writer,minute,hour,day,ever}')",
                        ),
                        name="pgqueue_counter_grain_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Func(
                            models.F("event"),
                            output_field=models.BooleanField(),
                            template="%(expressions)s = ANY "
                            "('{started,succeeded,retried,failed,"
                            "cancelled_by_handler,lease_expired,lease_expired_dead,"
                            "cancelled,cancelled_unstarted,requeued}')",
                        ),
                        name="pgqueue_counter_event_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.GreaterThanOrEqual(
                                models.F("starts_at"),
                                models.Func(
                                    output_field=models.DateTimeField(),
                                    template="timestamptz '1970-01-01 00:00:00+00'",
                                ),
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                models.F("starts_at"),
                                models.Func(
                                    output_field=models.DateTimeField(),
                                    template="timestamptz '9000-01-01 00:00:00+00'",
                                ),
                            ),
                        ),
                        name="pgqueue_counter_starts_at_readable",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkerProcess",
            fields=[
                (
                    "name",
                    models.CharField(max_length=200, primary_key=True, serialize=False),
                ),
                ("host", models.TextField()),
                ("pid", models.IntegerField()),
                ("queues", models.TextField()),
                ("threads", models.IntegerField()),
                ("async_slots", models.IntegerField()),
                ("running", models.IntegerField()),
                ("version", models.TextField()),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "worker processes",
                "db_table": "pgqueue_worker",
                "default_permissions": ("view",),
            },
        ),
        # Room on each page for the versions that a job goes through, and a vacuum that
        # comes after thousands of dead rows instead of a fifth of the table.
        *(
            migrations.RunSQL(
                f"ALTER TABLE pgqueue_job SET ({option} = {value})",
                f"ALTER TABLE pgqueue_job RESET ({option})",
            )
            for option, value in TABLE_OPTIONS.items()
        ),
        # A row of counts goes through thousands of versions in its minute.
        *(
            migrations.RunSQL(
                f"ALTER TABLE pgqueue_counter SET ({option} = {value})",
                f"ALTER TABLE pgqueue_counter RESET ({option})",
            )
            for option, value in COUNTER_OPTIONS.items()
        ),
    ]
