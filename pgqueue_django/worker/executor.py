"""From an attempt to its outcome: decode, call, judge. No SQL here."""

from collections.abc import Callable, Coroutine
from functools import lru_cache
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

from asgiref.sync import async_to_sync, sync_to_async

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.backoff import Backoff
from pgqueue_django.compat import task_finished, task_started
from pgqueue_django.context import JobContext
from pgqueue_django.exceptions import (
    AttemptCancelled,
    AttemptTimedOut,
    Cancel,
    InvalidJob,
    Retry,
    Snooze,
)
from pgqueue_django.failures import Failure
from pgqueue_django.hearing import has_receivers
from pgqueue_django.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from pgqueue_django.registry import registry
from pgqueue_django.serialization import dump_result, load_args, load_kwargs
from pgqueue_django.specs import clean_delay
from pgqueue_django.tasks import QueueTask, as_queue_task
from pgqueue_django.worker.announcing import Announcer
from pgqueue_django.worker.held import HeldJob, Notes
from pgqueue_django.worker.leases import Lease
from pgqueue_django.worker.scopes import Scope
from pgqueue_django.worker.timeouts import TimeLimits

P = ParamSpec("P")
T = TypeVar("T")


class Aside(Protocol):
    """What ``sync_to_async`` does."""

    def __call__(
        self, function: Callable[P, T], /
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return what awaits the function's end in another thread."""
        ...


_is_async = lru_cache(maxsize=1_024)(iscoroutinefunction)


def is_async(name: str) -> bool:
    """Tell whether the handler of a task is to run on an event loop."""
    task = registry.declared(name)
    return task is not None and _is_async(task.func)


class Executor:
    """Runs handlers, and never raises for what they do.

    Args:
        time_limits: Where handlers with a timeout are watched.
        notes: Where handlers write of their jobs; None is Django's connection.
    """

    def __init__(self, time_limits: TimeLimits, notes: Notes | None = None) -> None:
        self._time_limits = time_limits
        self._notes = notes or Notes()
        self._scopes: dict[tuple[int, str], Scope] = {}

    def run(self, attempt: Attempt, lease: Lease) -> Outcome:
        """Run one attempt.

        Args:
            attempt: What to run.
            lease: Tells the handler, through its context, when to stop.

        Returns:
            How it ended. Whatever the handler raises, SystemExit and KeyboardInterrupt
            included, is a failed attempt; after its success is committed it is
            signalled, and no more.

        Concurrency:
            An async handler runs on a loop of its own here; what it calls by
            ``sync_to_async``, in this thread.
        """
        run = _Run.of(attempt, lease)
        if run is None:
            return Released()
        if _is_async(run.task.func):
            return async_to_sync(self.run_async)(attempt, lease)
        if (unreadable := run.begin()) is not None:
            return unreadable
        try:
            args, handler = run.arguments(self._notes), run.handler
            if run.may_be_ended:
                value = self._time_limits.call(attempt, handler, *args, **run.kwargs)
            else:
                value = handler(*args, **run.kwargs)
            outcome: Outcome = Succeeded(dump_result(value))
        except BaseException as error:  # noqa: BLE001 - only a real signal ends a worker
            # In here, where receivers of Django's signals find the exception.
            return run.failed(error, error.__traceback__)
        return run.ended(outcome)

    async def run_async(
        self, attempt: Attempt, lease: Lease, aside: Aside = sync_to_async
    ) -> Outcome:
        """Run one attempt of an async handler on the running loop; see ``run``.

        Args:
            attempt: What to run.
            lease: As in ``run``.
            aside: Lets a function be awaited that runs in another thread: what may use
                the database, as receivers of signals may. Where there are none but the
                log, nothing leaves the loop.
        """
        run = _Run.of(attempt, lease)
        if run is None:
            return Released()
        begin = aside(run.begin) if run.start_has_receivers else _async(run.begin)
        if (unreadable := await begin()) is not None:
            return unreadable
        scope = self._scopes[attempt.key] = Scope(attempt, self._time_limits)
        arguments = aside if run.task.takes_context else _async
        try:
            args = await arguments(run.arguments)(self._notes)
            value = await scope.call(run.handler, args, run.kwargs)
            outcome: Outcome = Succeeded(dump_result(value))
        except BaseException as error:  # noqa: BLE001 - as in run
            return await aside(run.failed)(error, error.__traceback__)
        finally:
            del self._scopes[attempt.key]
        ended = aside(run.ended) if run.end_has_receivers else _async(run.ended)
        return await ended(outcome)

    def cancel(self, attempt: Attempt) -> None:
        """Break off an attempt whose job was cancelled, if its task says so."""
        found = registry.find(attempt.task)
        if found and as_queue_task(found).cancel == "interrupt":
            self.interrupt(attempt, AttemptCancelled)

    def interrupt(self, attempt: Attempt, reason: type[BaseException]) -> bool:
        """Break off an attempt, from any thread.

        The reason is raised in the handler's thread, or its coroutine is cancelled.
        Unless it has ended by itself before it hears of it, it ends as if it had raised
        the reason; one that does not end is given up as at its timeout.

        Returns:
            Whether it was running. False for a synchronous handler that has no timeout
            and whose task does not say ``cancel="interrupt"``.
        """
        scope = self._scopes.get(attempt.key)
        if scope is None:
            return self._time_limits.interrupt(attempt, reason)
        scope.interrupt(reason)
        return True

    def give_up(self, attempt: Attempt) -> Outcome:
        """Return how an attempt ends whose handler does not end by itself."""
        scope = self._scopes.get(attempt.key)
        reason = scope.reason if scope else AttemptTimedOut
        error = reason("ran for longer than its timeout, and could not be ended")
        if found := registry.find(attempt.task):
            return _judge(error, as_queue_task(found), attempt)
        return _retried_by_default(error, attempt)


class _Run:
    """What comes before a handler and after it, of whichever kind it is."""

    def __init__(
        self, task: QueueTask[..., Any], attempt: Attempt, lease: Lease
    ) -> None:
        self.task = task
        self.kwargs: dict[str, Any] = {}
        self._args: list[Any] = []
        self._attempt = attempt
        self._lease = lease
        self._announcer = Announcer(task, attempt.id)

    @classmethod
    def of(cls, attempt: Attempt, lease: Lease) -> "_Run | None":
        """Return the run of an attempt; None is a task that is not known."""
        found = registry.find(attempt.task)
        return cls(as_queue_task(found), attempt, lease) if found else None

    @property
    def may_be_ended(self) -> bool:
        """Whether anything may end the handler before its own end."""
        return (
            self._attempt.timeout_seconds is not None or self.task.cancel == "interrupt"
        )

    @property
    def handler(self) -> Callable[..., Any]:
        """What to call; one that a cancel interrupts looks first if it came before."""
        return (
            self._call_unless_lost
            if self.task.cancel == "interrupt"
            else self.task.func
        )

    @property
    def start_has_receivers(self) -> bool:
        """Whether anybody listens who may do whatever they like."""
        return bool(signals.job_started.receivers) or has_receivers(task_started)

    @property
    def end_has_receivers(self) -> bool:
        """Whether anybody listens who may do whatever they like."""
        return self._lease.committed is not None or has_receivers(task_finished)

    def begin(self) -> Outcome | None:
        """Decode and announce; return the end of what cannot be decoded."""
        attempt = self._attempt
        try:
            self._args = load_args(attempt.args)
            self.kwargs = load_kwargs(attempt.kwargs)
        except InvalidJob as error:
            return self._announcer.ended(Failed(Failure.of(error)))
        signals.job_started.send_robust(Executor, attempt=attempt)
        self._announcer.started()
        return None

    def arguments(self, notes: Notes) -> list[Any]:
        """Return what the handler is called with."""
        if self.task.takes_context:
            return [_context(self.task, self._lease, notes), *self._args]
        return self._args

    def _call_unless_lost(self, *args: Any, **kwargs: Any) -> Any:
        if self._lease.lost:
            raise AttemptCancelled
        return self.task.func(*args, **kwargs)

    def failed(self, error: BaseException, trace: TracebackType | None) -> Outcome:
        """Judge an exception, whose traceback it had where it was caught."""
        error.__traceback__ = trace
        return self.ended(_judge(error, self.task, self._attempt))

    def ended(self, outcome: Outcome) -> Outcome:
        """Announce the outcome that counts, and return it."""
        return self._announcer.ended(_kept(outcome, self._lease))


def _async(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a function be awaited that is called at once, as ``sync_to_async`` does."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    return call


def _context(task: QueueTask[..., Any], lease: Lease, notes: Notes) -> JobContext:
    attempt, backend = lease.attempt, task.get_backend()
    result: Any = backend.get_result(str(attempt.id))
    return JobContext(
        task_result=result,
        job_id=attempt.id,
        attempt=attempt.number,
        max_attempts=attempt.max_attempts,
        should_stop=lease.should_stop,
        _hold=HeldJob(lease, notes, using=getattr(backend, "database", None)),
    )


def _kept(outcome: Outcome, lease: Lease) -> Outcome:
    """Return the outcome that counts: a success that is committed comes before all."""
    if lease.committed is None:
        # Of a job that is another's by now, or nobody's, there is nothing to announce.
        return Released() if lease.lost else outcome
    if outcome not in (Succeeded("null"), Succeeded(lease.committed.result)):
        signals.outcome_ignored.send_robust(
            Executor, attempt=lease.attempt, outcome=outcome
        )
    return lease.committed


def _judge(
    error: BaseException, task: QueueTask[..., Any], attempt: Attempt
) -> Outcome:
    try:
        if isinstance(error, Snooze):
            return Snoozed(clean_delay(error.delay, field="Snooze"))
        if isinstance(error, Cancel):
            return Cancelled(Failure.of(error))
        if isinstance(error, Retry):
            return _retried(error, task, attempt, error.after)
        reaction = task.reaction_to(error)
        if reaction == "give_up":
            return Failed(Failure.of(error))
        return _retried(error, task, attempt, None if reaction == "retry" else reaction)
    except BaseException as wrong:  # noqa: BLE001 - a wrong delay, a policy that raises
        return _retried_by_default(wrong, attempt)


def _retried(
    error: BaseException, task: QueueTask[..., Any], attempt: Attempt, after: Any
) -> Outcome:
    if attempt.number >= attempt.max_attempts:
        return Failed(Failure.of(error))
    if after is None:
        return Retried(Failure.of(error), task.delay_after(attempt.number))
    return Retried(Failure.of(error), clean_delay(after, field="Retry"))


def _retried_by_default(error: BaseException, attempt: Attempt) -> Outcome:
    if attempt.number >= attempt.max_attempts:
        return Failed(Failure.of(error))
    return Retried(Failure.of(error), Backoff().delay(attempt.number))
