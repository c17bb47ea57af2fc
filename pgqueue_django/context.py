"""What a handler that asks for it is told about its attempt, and may do with it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ParamSpec, Protocol, TypeVar

from asgiref.sync import sync_to_async

from pgqueue_django.compat import GenericTaskContext
from pgqueue_django.exceptions import LeaseLost
from pgqueue_django.metadata import PROGRESS, dump_metadata, dump_progress
from pgqueue_django.results import JobResult
from pgqueue_django.specs import clean_timeout
from pgqueue_django.stop_event import StopEvent

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Done:
    """What ``fenced()`` records at the end of its block."""

    result: Any = None
    """The job's result: a JSON value."""


class Hold(Protocol):
    """What writes of a job for its handler. Each raises LeaseLost when it is lost."""

    def fenced(self, done: Done, using: str | None) -> AbstractContextManager[Done]:
        """Return the block after which the job has succeeded."""
        ...

    def save(self, metadata: str, stamped: tuple[str, ...] = ()) -> None:
        """Add to the metadata: JSON text; ``stamped`` keys get the time."""
        ...

    def extend(self, seconds: float) -> None:
        """Let the lease last for so long from now on, or longer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(GenericTaskContext):  # type: ignore[misc] # the stub is not frozen
    """Django's ``TaskContext``, with what this queue knows besides.

    A handler declared with ``takes_context=True`` gets it as its first argument, which
    must be called ``context``.
    """

    task_result: JobResult[Any]
    """The job as it was when the attempt began."""

    job_id: int
    """Key of the job's row."""

    # field() hides the property of the base class, which would become the default.
    attempt: int = field()
    """The number of this attempt, from 1."""

    max_attempts: int
    """After this many failed attempts the job is dead."""

    should_stop: StopEvent = field(default_factory=StopEvent, repr=False, compare=False)
    """Set when going on is of no use: the lease is lost, the job is cancelled, or the
    worker shuts down. ``should_stop.wait(seconds)`` is a sleep that ends in time; in
    async code ``await should_stop.wait_async(seconds)``."""

    _hold: Hold | None = field(default=None, repr=False, compare=False)

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job is dead if this attempt fails."""
        return self.attempt >= self.max_attempts

    @property
    def _held(self) -> Hold:
        if self._hold is None:
            raise LeaseLost("no worker holds the job of this context")
        return self._hold

    def fenced(
        self, result: Any = None, *, using: str | None = None
    ) -> AbstractContextManager[Done]:
        """Return a block that writes and succeeds in one transaction, or does neither.

        ``with context.fenced() as done:`` opens a transaction on Django's connection.
        At the end of the block the job's row is locked, the lease is checked, and the
        job's success is recorded, in that transaction. So the block's own writes stand
        exactly if the job has succeeded by this attempt.

        After the block the job has succeeded, whatever the handler does: what it raises
        or returns then is logged and not kept.

        Args:
            result: The job's result, unless the block sets ``done.result``.
            using: Alias of the database, for one that is the same as the jobs' under
                another name. None is the one to which the task's backend enqueues.

        Raises:
            LeaseLost: The job is not ours any more; nothing of the block is kept.
            JobFinished: There was such a block before.
            InvalidJob: The result cannot be stored; nothing of the block is kept.
            RuntimeError: It is inside another ``atomic()``, whose end could still undo
                what this block says is done. Inside it, ``atomic()`` is a savepoint.

        Concurrency:
            Nothing is locked until the end of the block, and the lease is renewed
            meanwhile. A worker that stalls in the block delays nobody but those who
            need the rows that the block wrote. Under REPEATABLE READ a renewal during
            the block makes it fail (SQLSTATE 40001): keep it shorter than a third of
            the lease. Not for async code: see ``afenced``.
        """
        return self._held.fenced(Done(result), using)

    async def afenced(
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a synchronous function in ``fenced()``; what it returns is the result.

        All in one thread and without a break, as Django's transactions need it.

        Raises: as in ``fenced``, and what the function raises.
        """

        def run() -> R:
            with self.fenced() as done:
                value = done.result = function(*args, **kwargs)
            return value

        return await sync_to_async(run)()

    def save_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add to the job's metadata, at once and for all to see.

        It outlives the attempt: the next one finds it in ``task_result.metadata``.

        Args:
            metadata: JSON values by str keys. A key takes the place of the same one,
                others stay. Keys that begin with ``_`` are the queue's own.

        Raises:
            LeaseLost: The job is not ours any more; nothing is written.
            InvalidJob: A value cannot be stored, a key is reserved, or the whole would
                take more than ``limits.METADATA_BYTES``; nothing is written.

        Concurrency:
            One commit on a connection of the worker's own, whatever transaction the
            handler is in.
        """
        self._held.save(dump_metadata(metadata))

    async def asave_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Do as ``save_metadata``, from async code."""
        await sync_to_async(self.save_metadata)(metadata)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Save how far the job is, as ``_progress`` in its metadata.

        Args:
            done: How much is done: 0 or more, of whatever unit.
            total: How much there is; None where nobody knows.
            note: A word for people, cut to ``limits.PROGRESS_NOTE_BYTES``.

        Raises and Concurrency: as in ``save_metadata``.
        """
        self._held.save(dump_progress(done, total, note), (PROGRESS,))

    async def aprogress(
        self, done: float, total: float | None = None, note: str = ""
    ) -> None:
        """Do as ``progress``, from async code."""
        await sync_to_async(self.progress)(done, total, note)

    def extend(self, lease: float | timedelta) -> None:
        """Let the lease last for so long from now on, before the next renewal.

        For what keeps the worker's other threads from running, renewals included: C
        code that holds Python's global interpreter lock. If the worker dies meanwhile,
        the job comes back only when this lease ends.

        Args:
            lease: Seconds, or a timedelta. One that is shorter than the worker's own
                leases is as long as those.

        Raises:
            LeaseLost: The job is not ours any more.
            InvalidJob: It is no such time.
        """
        self._held.extend(clean_timeout(lease, field="lease"))

    async def aextend(self, lease: float | timedelta) -> None:
        """Do as ``extend``, from async code."""
        await sync_to_async(self.extend)(lease)
