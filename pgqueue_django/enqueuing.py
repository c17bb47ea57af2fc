"""``enqueue()``: a job from a task, or from a task's name."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast, overload

from pgqueue_django.compat import P, R, Task
from pgqueue_django.exceptions import InvalidJobType
from pgqueue_django.results import JobResult
from pgqueue_django.task_options import CallOptions
from pgqueue_django.tasks import QueueTask, as_queue_task, registered


@overload
def enqueue(
    task: QueueTask[P, R],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> JobResult[R]: ...
@overload
def enqueue(
    task: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> JobResult[Any]: ...
def enqueue(
    task: QueueTask[..., Any] | str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> JobResult[Any]:
    """Enqueue a call of a task, in the caller's transaction if there is one.

    ``task.enqueue(...)`` does the same for a task at hand, and a type checker then
    knows the arguments. This is for names, and for arguments that come as data.

    Args:
        task: A task, or the name of a registered one.
        args: Positional arguments: a list or tuple of JSON values.
        kwargs: Keyword arguments: a dict of JSON values.
        **options: Those of ``task.using()``.

    Returns:
        The job's result, as ``task.enqueue()`` returns it.

    Raises:
        UnknownTask: No task is registered by that name.
        TypeError: An option is unknown, or two say the same thing.
        InvalidTask: The value of an option is wrong.
        InvalidJob: An argument cannot be stored.
        IdempotencyConflict: The idempotency key is taken by another call.
    """
    chosen = _task(task)
    _check_arguments(args, kwargs)
    if options:
        chosen = chosen.using(**options)
    # Not chosen.enqueue(): an argument of a call may be called "self".
    result = chosen.get_backend().enqueue(chosen, list(args), dict(kwargs or {}))
    return cast("JobResult[Any]", result)


def _task(given: object) -> QueueTask[..., Any]:
    if isinstance(given, str):
        return registered(given)
    if isinstance(given, Task):
        return as_queue_task(given)
    raise InvalidJobType(
        "task",
        f"must be a task or the name of one, not {type(given).__name__}; a function "
        "becomes a task by @task",
    )


def _check_arguments(args: object, kwargs: object) -> None:
    # A text is a sequence too, of characters that nobody means as arguments.
    if not isinstance(args, Sequence) or isinstance(args, str | bytes | bytearray):
        raise InvalidJobType(
            "args", f"must be a list or tuple, not {type(args).__name__}"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidJobType("kwargs", f"must be a dict, not {type(kwargs).__name__}")
