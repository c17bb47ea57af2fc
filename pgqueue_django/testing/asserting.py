"""What waits in the queue, and what a test says of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pgqueue_django.compat import AnyTask
from pgqueue_django.registry import name_of, registry
from pgqueue_django.serialization import dump_args, dump_kwargs
from pgqueue_django.states import State

if TYPE_CHECKING:
    from pgqueue_django.models import Job

_WAITING: Final = (State.SCHEDULED, State.QUEUED, State.UNSERVED)

# How many jobs a message shows.
_SHOWN: Final = 10


def enqueued(
    task: AnyTask | str | None = None, *, queue: str | None = None
) -> "list[Job]":
    """Return the jobs that wait, oldest first.

    Args:
        task: Only those of this task, or of the task of this name.
        queue: Only those of this queue.

    Raises:
        UnknownTask: No task is registered by that name.
    """
    from pgqueue_django.models import Job

    jobs = Job.objects.filter(state__in=_WAITING).order_by("id")
    if task is not None:
        jobs = jobs.filter(task=_name(task))
    if queue is not None:
        jobs = jobs.filter(queue=queue)
    return list(jobs)


def assert_enqueued(
    task: AnyTask | str,
    *,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    queue: str | None = None,
    run_at: datetime | timedelta | None = None,
    count: int | None = None,
) -> "list[Job]":
    """Assert that calls of a task wait in the queue.

    What is None may be anything. Arguments are compared as they are stored: a tuple
    equals the list that the handler will get.

    Args:
        task: The task, or its name.
        args: All positional arguments.
        kwargs: All keyword arguments.
        queue: The queue.
        run_at: The earliest start: an instant, or how long after the enqueuing.
        count: How many such jobs there are; None is one or more.

    Returns:
        The jobs, oldest first.

    Raises:
        AssertionError: There are none, or not so many; it says in what the jobs that
            wait differ.
        UnknownTask: No task is registered by that name.
        InvalidJob: No job can have such arguments.
    """
    wanted = _wanted(args, kwargs, queue, run_at)
    found = [job for job in enqueued(task) if not _differences(job, wanted)]
    if (found if count is None else len(found) == count) or count == len(found) == 0:
        return found
    raise AssertionError(_message(_name(task), wanted, found, count))


def refute_enqueued(
    task: AnyTask | str,
    *,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    queue: str | None = None,
    run_at: datetime | timedelta | None = None,
) -> None:
    """Assert that no such call waits; for the arguments see ``assert_enqueued``.

    Raises:
        AssertionError: There is one; it says which.
    """
    assert_enqueued(task, args=args, kwargs=kwargs, queue=queue, run_at=run_at, count=0)


def _name(task: AnyTask | str) -> str:
    return name_of(registry.get(task) if isinstance(task, str) else task)


def _wanted(
    args: Sequence[object] | None,
    kwargs: Mapping[str, object] | None,
    queue: str | None,
    run_at: datetime | timedelta | None,
) -> dict[str, Any]:
    given = {
        "args": None if args is None else json.loads(dump_args(args)),
        "kwargs": None if kwargs is None else json.loads(dump_kwargs(kwargs)),
        "queue": queue,
        "run_at": run_at,
    }
    return {name: value for name, value in given.items() if value is not None}


def _differences(job: "Job", wanted: Mapping[str, Any]) -> list[str]:
    return list(_differing(job, wanted))


def _differing(job: "Job", wanted: Mapping[str, Any]) -> Iterator[str]:
    for name, value in wanted.items():
        has: Any = getattr(job, name)
        if isinstance(value, timedelta):
            has -= job.enqueued_at
        if has != value:
            yield f"{name} is {_text(has)}, not {_text(value)}"


def _text(value: object) -> str:
    return str(value) if isinstance(value, datetime | timedelta) else repr(value)


def _message(
    name: str, wanted: Mapping[str, Any], found: "list[Job]", count: int | None
) -> str:
    asked = "".join(f" {key}={_text(value)}" for key, value in wanted.items())
    number = "a job" if count is None else "no job" if count == 0 else f"{count} jobs"
    lines = [f"Expected {number} of {name}{asked or ''}, found {len(found) or 'none'}."]
    same = enqueued(name)
    shown = same or enqueued()
    if not shown:
        return "\n".join([*lines, "Nothing waits in the queue."])
    lines.append("What waits:" if same else "Nothing of that task waits, but:")
    lines += [_line(job, wanted if same else {}) for job in shown[:_SHOWN]]
    if more := len(shown) - _SHOWN:
        lines += [f"  and {more} more"] if more > 0 else []
    return "\n".join(lines)


def _line(job: "Job", wanted: Mapping[str, Any]) -> str:
    shown = f"  job {job.pk}: {job.task} args={job.args!r} kwargs={job.kwargs!r}"
    shown += f" queue={job.queue!r}"
    differences = _differences(job, wanted)
    return f"{shown}: {'; '.join(differences)}" if differences else shown
