"""The ``django.tasks`` backend whose store is the job table."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, router
from django.utils.functional import cached_property

from pgqueue_django.backends.options import (
    BackendOptions,
    problems,
    queue_problems,
    read_options,
)
from pgqueue_django.backends.results import Limits, parse_id, result_of
from pgqueue_django.backends.validation import check_task
from pgqueue_django.compat import (
    AnyTask,
    BaseTaskBackend,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from pgqueue_django.conf import get_settings
from pgqueue_django.hearing import is_heard
from pgqueue_django.policies import BackoffPolicy
from pgqueue_django.registry import name_of, registry
from pgqueue_django.results import JobResult
from pgqueue_django.specs import JobSpec
from pgqueue_django.tasks import QueueTask, declared_of

if TYPE_CHECKING:
    from pgqueue_django.managers.jobs import JobManager


class PgQueueBackend(BaseTaskBackend):
    """Stores tasks as jobs, for ``manage.py pgqueue_worker`` to run.

    Args:
        alias: Its key in ``settings.TASKS``.
        params: ``QUEUES`` (names that tasks may use; empty for any) and ``OPTIONS``
            (``DATABASE``, ``MAX_ATTEMPTS``, ``BACKOFF``, ``TIMEOUT``). What is wrong
            with them is told by the system checks, and at the first enqueue.
    """

    task_class = QueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._given_queues = params.get("QUEUES", [])

    @cached_property
    def defaults(self) -> BackendOptions:
        """What ``OPTIONS`` says for tasks that do not.

        Raises:
            InvalidTaskBackend: It has an unknown key or a wrong value.
        """
        return read_options(self.alias, self.options)

    @property
    def database(self) -> str:
        """Alias of the database to which jobs are enqueued."""
        from pgqueue_django.models import Job

        return self.defaults.database or router.db_for_write(Job)

    @property
    def default_backoff(self) -> BackoffPolicy | None:
        """The wait between attempts, for tasks that do not say."""
        return self.defaults.backoff

    def validate_task(self, task: AnyTask) -> None:
        """Check that a worker can run a task as this backend would store it.

        Raises:
            InvalidTask: It cannot, or its priority, queue or time is wrong.
        """
        check_task(task, self.queues)
        super().validate_task(task)

    def enqueue(  # type: ignore[override] # the stub's result has parameters too
        self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> JobResult[Any]:
        """Store a job, in the caller's transaction if there is one.

        Args:
            task: What to run.
            args: Positional arguments: JSON values.
            kwargs: Keyword arguments: JSON values.

        Returns:
            The new job's result; or, where the task has an idempotency key that is
            taken by the same call, that of the job that has it, as it is now.

        Raises:
            InvalidTask: The task cannot be run, or an option is wrong.
            InvalidJob: An argument cannot be stored; it is a ValueError, and a
                TypeError where its type is the reason.
            IdempotencyConflict: The key is taken by another call.

        Concurrency:
            Other connections see the job once the caller's transaction commits.
        """
        self.validate_task(task)
        registry.register(declared_of(task))
        enqueued = self._jobs().enqueue(self.spec_of(task, args, kwargs))
        if not enqueued.created:
            found = self.get_result(str(enqueued.id))
            object.__setattr__(found, "replayed", True)
            return found
        result: JobResult[Any] = JobResult(
            task=task,
            id=str(enqueued.id),
            status=TaskResultStatus.READY,
            enqueued_at=enqueued.enqueued_at,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        if is_heard(task_enqueued, logging.DEBUG):
            task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> JobResult[Any]:
        """Read a job as a task result, whether its task still exists or not.

        Raises:
            TaskResultDoesNotExist: There is no such job, or the id cannot be one's.
        """
        job = self._jobs().filter(pk=parse_id(result_id)).first()
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(job, self.alias, self._limits_of)

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        """Return what is wrong with this alias in ``settings.TASKS``."""
        return list(self._problems()) or list(self._remarks())

    def _problems(self) -> Iterator[checks.CheckMessage]:
        for problem in problems(self.alias, self.options):
            yield checks.Error(problem, id="pgqueue.E020")
        for problem in queue_problems(self.alias, self._given_queues):
            yield checks.Error(problem, id="pgqueue.E021")
        if not apps.is_installed("pgqueue_django"):
            yield checks.Error(
                f"TASKS[{self.alias!r}] is a PgQueueBackend, but the app is missing.",
                hint="Add 'pgqueue_django' to INSTALLED_APPS.",
                id="pgqueue.E022",
            )

    def _remarks(self) -> Iterator[checks.CheckMessage]:
        others = (
            model
            for model in apps.get_models()
            if model._meta.app_label != "pgqueue_django"  # noqa: SLF001
        )
        if self.database not in {DEFAULT_DB_ALIAS, *map(router.db_for_write, others)}:
            yield checks.Warning(
                f"TASKS[{self.alias!r}] keeps its jobs on the database "
                f"{self.database!r}, where no other model is: a job does not commit "
                "with the data that it is about.",
                hint="Enqueue it in transaction.on_commit(). Where that is done, add "
                "'pgqueue.W020' to SILENCED_SYSTEM_CHECKS.",
                id="pgqueue.W020",
            )

    def _jobs(self) -> "JobManager":
        # Reads go there too: a replica may not have the job yet.
        return _jobs_on(self.database)

    def spec_of(
        self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> JobSpec:
        """Return the job that ``enqueue`` would store.

        Raises:
            InvalidJob: An argument cannot be stored.
        """
        max_attempts, timeout = self._limits_of(task)
        return JobSpec.build(
            task=name_of(task),
            args=args,
            kwargs=kwargs,
            queue=task.queue_name,
            priority=task.priority,
            run_at=task.run_after,
            delay=getattr(task, "delay", None),
            max_attempts=max_attempts,
            timeout=timeout,
            idempotency_key=getattr(task, "idempotency_key", None),
            unique_key=getattr(task, "unique_key", None),
        )

    def _limits_of(self, task: AnyTask) -> Limits:
        own, defaults = getattr(task, "max_attempts", None), self.defaults
        timeout = getattr(task, "timeout", None)
        return (
            own or defaults.max_attempts or get_settings().max_attempts,
            defaults.timeout if timeout is None else timeout,
        )


@cache
def _jobs_on(database: str) -> "JobManager":
    from pgqueue_django.models import Job

    return Job.objects.db_manager(database)
