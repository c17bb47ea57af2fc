"""The task framework of the running Django: its own, or the backport on 5.2.

Everything else imports the framework from here. Where neither is installed, importing
this module raises ImportError, which says what to install.
"""

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

import django

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import (
        Task,
        TaskContext,
        TaskResult,
        TaskResultStatus,
        task_backends,
    )
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TASK_REFRESH_ATTRS, TaskError
    from django.tasks.exceptions import (
        InvalidTask,
        InvalidTaskBackend,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    try:
        from django_tasks import (
            TaskContext,
            TaskResult,
            TaskResultStatus,
            task_backends,
        )
    except ModuleNotFoundError as error:
        raise ImportError(
            "pgqueue_django needs django.tasks, which Django has from 6.0 on. On "
            f"Django {django.get_version()} install its backport: "
            "pip install django-tasks"
        ) from error
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import TASK_REFRESH_ATTRS, Task, TaskError
    from django_tasks.exceptions import (
        InvalidTaskBackendError as InvalidTaskBackend,
    )
    from django_tasks.exceptions import (
        InvalidTaskError as InvalidTask,
    )
    from django_tasks.exceptions import (
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django_tasks.signals import task_enqueued, task_finished, task_started

P = ParamSpec("P")
R = TypeVar("R")

# Django's classes are generic only in its stubs. Generic stands beside them for type
# checkers that find no stubs.
if TYPE_CHECKING:

    class GenericTask(Task[P, R], Generic[P, R]):
        """``Task``, with the handler's parameters and return type."""

    class GenericTaskResult(TaskResult[..., R], Generic[R]):
        """``TaskResult``, with the handler's return type."""

    GenericTaskContext = TaskContext[..., Any]
    AnyTask: TypeAlias = Task[..., Any]

else:

    class GenericTask(Task, Generic[P, R]):
        """``Task``, with the handler's parameters and return type."""

        __slots__ = ()

    class GenericTaskResult(TaskResult, Generic[R]):
        """``TaskResult``, with the handler's return type."""

        __slots__ = ()

    GenericTaskContext = TaskContext
    AnyTask = Task


__all__ = [
    "TASK_REFRESH_ATTRS",
    "AnyTask",
    "BaseTaskBackend",
    "GenericTask",
    "GenericTaskContext",
    "GenericTaskResult",
    "InvalidTask",
    "InvalidTaskBackend",
    "P",
    "R",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
