"""From an attempt to its outcome: decode, call, judge. No SQL here."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import async_to_sync

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.backoff import Backoff
from pgqueue_django.context import JobContext
from pgqueue_django.exceptions import AttemptTimedOut, Cancel, InvalidJob, Retry, Snooze
from pgqueue_django.failures import Failure
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
from pgqueue_django.worker.timeouts import TimeLimits

_is_async = lru_cache(maxsize=1_024)(iscoroutinefunction)


class Executor:
    """Runs handlers, and never raises for what they do.

    Args:
        time_limits: Where handlers with a timeout are watched.
        notes: Where handlers write of their jobs; None is Django's connection.
    """

    def __init__(self, time_limits: TimeLimits, notes: Notes | None = None) -> None:
        self._time_limits = time_limits
        self._notes = notes or Notes()

    def run(self, attempt: Attempt, lease: Lease) -> Outcome:
        """Run one attempt.

        Args:
            attempt: What to run.
            lease: Tells the handler, through its context, when to stop.

        Returns:
            How it ended. Whatever the handler raises, SystemExit and KeyboardInterrupt
            included, is a failed attempt; after its success is committed it is
            signalled, and no more.
        """
        found = registry.find(attempt.task)
        if found is None:
            return Released()
        task = as_queue_task(found)
        announcer = Announcer(task, attempt.id)
        try:
            args, kwargs = load_args(attempt.args), load_kwargs(attempt.kwargs)
        except InvalidJob as error:
            return announcer.ended(Failed(Failure.of(error)))
        signals.job_started.send_robust(Executor, attempt=attempt)
        announcer.started()
        try:
            if task.takes_context:
                args.insert(0, _context(task, lease, self._notes))
            value = self._call(attempt, task.func, args, kwargs)
            outcome: Outcome = Succeeded(dump_result(value))
        except BaseException as error:  # noqa: BLE001 - only a real signal ends a worker
            # In here, where receivers of Django's signals find the exception.
            return announcer.ended(_kept(_judge(error, task, attempt), lease))
        return announcer.ended(_kept(outcome, lease))

    @staticmethod
    def give_up(attempt: Attempt) -> Outcome:
        """Return how an attempt ends whose handler does not end by itself."""
        error = AttemptTimedOut(
            "ran for longer than its timeout, and could not be ended"
        )
        if found := registry.find(attempt.task):
            return _judge(error, as_queue_task(found), attempt)
        return _retried_by_default(error, attempt)

    def _call(
        self,
        attempt: Attempt,
        handler: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        limits, timeout = self._time_limits, attempt.timeout_seconds
        if _is_async(handler):
            run = async_to_sync(_within)
            return limits.watch(attempt, run, timeout, handler, args, kwargs)
        if timeout is None:
            return handler(*args, **kwargs)
        return limits.call(attempt, handler, *args, **kwargs)


async def _within(
    timeout: float | None,  # noqa: ASYNC109 - it is the task's, and it says so
    handler: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    try:
        async with asyncio.timeout(timeout) as limit:
            return await handler(*args, **kwargs)
    except TimeoutError as error:
        if limit.expired():
            raise AttemptTimedOut from error
        raise


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
        return outcome
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
