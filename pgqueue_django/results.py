"""How a job looks as Django's ``TaskResult``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pgqueue_django.compat import (
    TASK_REFRESH_ATTRS,
    GenericTaskResult,
    R,
    TaskError,
    TaskResultStatus,
)
from pgqueue_django.exceptions import Cancel
from pgqueue_django.states import State

STATUSES: Final[Mapping[str, TaskResultStatus]] = {
    State.SCHEDULED: TaskResultStatus.READY,
    State.QUEUED: TaskResultStatus.READY,
    State.UNSERVED: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}

Errors = Sequence[Mapping[str, Any]]
"""The ``errors`` of a job row, newest last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobResult(GenericTaskResult[R]):  # type: ignore[misc] # the stub is not frozen
    """Django's ``TaskResult`` of a job, with the return type of its task."""

    # Equality is the base class's, so that a stored job equals its enqueuing.
    replayed: bool = False
    """Whether a key had this job already, so that none was added."""

    metadata: dict[str, Any] = field(default_factory=dict)
    """What its handler has saved, as of when the result was read; ``_progress`` is an
    object with ``done``, ``total``, ``note`` and ``at``."""

    @property
    def return_value(self) -> R:
        """What the task returned.

        Raises:
            ValueError: The job has failed, or has not finished yet.
        """
        return super(JobResult, self).return_value

    def refresh(self) -> None:
        """Read the job again."""
        self._copy(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """Do as ``refresh``, from async code."""
        self._copy(await self.task.get_backend().aget_result(self.id))

    def _copy(self, newer: object) -> None:
        for name in (*TASK_REFRESH_ATTRS, "metadata"):
            object.__setattr__(self, name, getattr(newer, name))

    @property
    def job_id(self) -> int:
        """Key of the job's row."""
        return int(self.id)


def worker_ids(attempts: int, worker: str, errors: Errors) -> list[str]:
    """Return who made each attempt, oldest first.

    Args:
        attempts: How many attempts the job has used up.
        worker: Who made the newest attempt, where no error tells; else "".
        errors: The errors that the job has kept.

    Returns:
        ``attempts`` entries, as Django counts attempts by them. "" stands where a
        long history no longer tells who it was.
    """
    by_attempt = {error.get("attempt"): error.get("worker") for error in errors}
    ids = [str(by_attempt.get(n) or "") for n in range(1, attempts + 1)]
    if worker and ids:
        ids[-1] = worker
    return ids


def task_errors(state: str, errors: Errors) -> list[TaskError]:
    """Return what went wrong, oldest first; for a cancelled job, last that it was."""
    found = [
        TaskError(
            exception_class_path=str(error.get("exception", "")),
            traceback=str(error.get("traceback", "")),
        )
        for error in errors
    ]
    if state == State.CANCELLED and not _tells_of_cancel(found):
        found.append(_CANCELLED)
    return found


_CANCEL_PATH: Final = f"{Cancel.__module__}.{Cancel.__qualname__}"
_CANCELLED: Final = TaskError(
    exception_class_path=_CANCEL_PATH,
    traceback=f"{_CANCEL_PATH}: the job was cancelled\n",
)


def _tells_of_cancel(found: list[TaskError]) -> bool:
    return bool(found) and found[-1].exception_class_path == _CANCEL_PATH
