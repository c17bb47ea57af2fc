"""``pgqueue_import_tasks_db``: move what waits in django-tasks-db to this queue."""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import models, router, transaction
from django.utils.module_loading import import_string

from pgqueue_django.backends import PgQueueBackend
from pgqueue_django.compat import AnyTask, Task
from pgqueue_django.exceptions import InvalidJob
from pgqueue_django.models import Job
from pgqueue_django.specs import JobSpec
from pgqueue_django.tasks import as_queue_task

_THEIRS = ("django_tasks_database", "DBTaskResult")
_SHOWN = 10
_AT_ONCE = 1_000

# What django-tasks-db stores for a task without a time: the first day of this year.
_WITHOUT_TIME_YEAR = 9999


class Command(BaseCommand):
    """Enqueue the waiting tasks of django-tasks-db as jobs, and delete their rows."""

    help = (
        "Move the READY tasks of django-tasks-db to this queue, all or none of them. "
        "Running and finished ones stay. Run again, it moves what came since."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Check every task and tell what would be moved; change nothing.",
        )

    def handle(self, *, dry_run: bool, **_: Any) -> None:
        """See BaseCommand."""
        model = _source()
        with transaction.atomic(using=router.db_for_write(model)):
            moved = _move(model, dry_run=dry_run)
        for path, count in sorted(moved.items()):
            self.stdout.write(f"{path}: {count:,}")
        verb = "would be moved" if dry_run else "moved"
        self.stdout.write(f"{moved.total():,} {verb}.")


def _source() -> type[models.Model]:
    try:
        model: type[models.Model] = apps.get_model(*_THEIRS)
    except LookupError:
        raise CommandError(
            "'django_tasks_db' is not in INSTALLED_APPS; keep it there until its tasks "
            "are moved."
        ) from None
    theirs, ours = router.db_for_write(model), router.db_for_write(Job)
    if theirs != ours:
        raise CommandError(
            f"django-tasks-db is on the database {theirs!r} and the jobs on {ours!r}: "
            "no transaction moves tasks from one to the other. Let its worker finish "
            "them."
        )
    return model


def _move(model: type[models.Model], *, dry_run: bool) -> Counter[str]:
    waiting = model._default_manager.using(router.db_for_write(model)).filter(  # noqa: SLF001
        status="READY"
    )
    seen: Counter[str] = Counter()
    refused: list[str] = []
    for rows in _chunks(waiting):
        seen.update(row.task_path for row in rows)
        specs = list(_specs(rows, refused))
        if not (dry_run or refused):
            Job.objects.enqueue_many(specs)
            waiting.filter(pk__in=[row.pk for row in rows]).delete()
    if refused:
        raise CommandError(
            f"Nothing is moved, since {len(refused):,} of {seen.total():,} tasks "
            "cannot be:\n" + "\n".join(refused[:_SHOWN])
        )
    return seen


def _chunks(waiting: models.QuerySet[Any]) -> Iterator[list[Any]]:
    # A row that a worker of theirs has locked is about to run there; and the rows that
    # another run of this command has locked are moved by it.
    rows = (
        waiting.select_for_update(skip_locked=True)
        .order_by("enqueued_at")
        .iterator(chunk_size=_AT_ONCE)
    )
    while chunk := list(islice(rows, _AT_ONCE)):
        yield chunk


def _specs(rows: list[Any], refused: list[str]) -> Iterator[JobSpec]:
    for row in rows:
        try:
            spec = _spec(row)
        # Their module is imported, which can raise anything.
        except Exception as error:  # noqa: BLE001
            refused.append(f"{row.pk} {row.task_path}: {error}")
        else:
            yield spec


def _spec(row: Any) -> JobSpec:
    timed = row.run_after is not None and row.run_after.year < _WITHOUT_TIME_YEAR
    task = as_queue_task(_task(row.task_path)).using(
        priority=row.priority,
        queue_name=row.queue_name,
        run_after=row.run_after if timed else None,
    )
    backend = task.get_backend()
    if not isinstance(backend, PgQueueBackend):
        raise InvalidJob("task", f"its backend {task.backend!r} is no PgQueueBackend")
    own = backend.defaults.database
    if own not in (None, router.db_for_write(Job)):
        raise InvalidJob("task", f"its backend keeps jobs on the database {own!r}")
    backend.validate_task(task)
    given = row.args_kwargs
    return backend.spec_of(task, given["args"], given["kwargs"])


def _task(path: str) -> AnyTask:
    found = import_string(path)
    if not isinstance(found, Task):
        raise InvalidJob("task", f"{path} is no task")
    return found
