"""Django's signals of tasks, sent when Django's own backends send them."""

import logging
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from django.dispatch import Signal

from pgqueue_django.compat import (
    R,
    TaskError,
    TaskResultStatus,
    task_finished,
    task_started,
)
from pgqueue_django.hearing import has_receivers, is_logged
from pgqueue_django.outcomes import Cancelled, Committed, Failed, Outcome, Succeeded
from pgqueue_django.results import JobResult
from pgqueue_django.serialization import load_result
from pgqueue_django.tasks import QueueTask

_STATUSES: Final[Mapping[type[Outcome], TaskResultStatus]] = {
    Committed: TaskResultStatus.SUCCESSFUL,
    Succeeded: TaskResultStatus.SUCCESSFUL,
    Failed: TaskResultStatus.FAILED,
    Cancelled: TaskResultStatus.FAILED,
}

_KNOWN: Final = frozenset({"task", "id", "backend", "status"})
_OF_THE_ROW: Final = frozenset(each.name for each in fields(JobResult)) - _KNOWN


class AttemptResult(JobResult[R]):
    """A job's result as the worker that runs it knows it.

    It reads the row when it is asked for more than task, id and state: most of those
    who hear of thousands of jobs a second ask for no more.

    Args:
        task: The job's task.
        id_: Key of the job's row.
        outcome: How the job ended; None while it runs.
        seconds: The time that the attempt took.
    """

    __slots__ = ("_outcome", "_seconds")

    def __init__(
        self,
        task: QueueTask[..., Any],
        id_: int,
        outcome: Outcome | None = None,
        seconds: float = 0.0,
    ) -> None:
        status = (
            TaskResultStatus.RUNNING if outcome is None else _STATUSES[type(outcome)]
        )
        self._put("task", task)
        self._put("id", str(id_))
        self._put("backend", task.backend)
        self._put("status", status)
        self._put("_outcome", outcome)
        self._put("_seconds", seconds)

    def __getattr__(self, name: str) -> Any:
        # Asked only for a slot that is empty, and for what there is not.
        if name not in _OF_THE_ROW:
            raise AttributeError(name)
        stored = self.task.get_backend().get_result(self.id)
        for each in _OF_THE_ROW:
            self._put(each, getattr(stored, each))
        self._add_outcome()
        return object.__getattribute__(self, name)

    def _add_outcome(self) -> None:
        """Say what the row does not say yet."""
        if self._outcome is None or self.finished_at is not None:
            return
        if self.last_attempted_at:
            # By the database's clock, as the other instants are.
            took = timedelta(seconds=self._seconds)
            self._put("finished_at", self.last_attempted_at + took)
        match self._outcome:
            case Succeeded(result):
                self._put("_return_value", load_result(result))
            case Failed(failure) | Cancelled(failure):
                error = TaskError(
                    exception_class_path=failure.exception, traceback=failure.traceback
                )
                self._put("errors", [*self.errors, error])

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


class Announcer:
    """Announces one attempt.

    Args:
        task: What runs.
        id_: Key of the job's row.
    """

    __slots__ = ("_id", "_logs", "_since", "_task")

    def __init__(self, task: QueueTask[..., Any], id_: int) -> None:
        self._task = task
        self._id = id_
        self._since = monotonic()
        # Of the start and of a success, which are most: asked once for both.
        self._logs = is_logged(logging.INFO)

    def started(self) -> None:
        """Announce that the handler is about to run."""
        if self._logs or has_receivers(task_started):
            self._send(task_started, AttemptResult(self._task, self._id))

    def ended(self, outcome: Outcome) -> Outcome:
        """Announce the end of the job, unless another attempt follows.

        To be called inside the ``except`` of an exception that ended it: receivers ask
        for it by ``sys.exc_info()``.

        Returns:
            The outcome.
        """
        status = _STATUSES.get(type(outcome))
        if status is not None and self._end_is_heard(status):
            took = monotonic() - self._since
            self._send(
                task_finished, AttemptResult(self._task, self._id, outcome, took)
            )
        return outcome

    def _end_is_heard(self, status: TaskResultStatus) -> bool:
        if has_receivers(task_finished):
            return True
        if status is TaskResultStatus.FAILED:
            return is_logged(logging.ERROR)
        return self._logs

    def _send(self, signal: Signal, result: AttemptResult[Any]) -> None:
        signal.send_robust(type(self._task.get_backend()), task_result=result)
