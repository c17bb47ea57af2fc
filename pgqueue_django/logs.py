"""Log lines: receivers of the signals, and nothing else writes any."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from django.dispatch import Signal

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt
from pgqueue_django.outcomes import Cancelled, Failed, Outcome, Retried, Succeeded

logger = logging.getLogger("pgqueue_django")

Receiver = TypeVar("Receiver", bound=Callable[..., None])

# While the database is away each loop of a worker fails again and again; one line in so
# many seconds says it for all of them.
_OUTAGE_INTERVAL = 5.0


# What an outage takes, it takes from all jobs of a worker at once: one line in so many
# seconds, the others at debug level.
_LOST_INTERVAL = 1.0


class _Outage:
    last_line = float("-inf")
    is_told = False
    last_lost = float("-inf")


def _receive(signal: Signal) -> Callable[[Receiver], Receiver]:
    def connect(function: Receiver) -> Receiver:
        signal.connect(function, dispatch_uid=f"{__name__}.{function.__name__}")
        return function

    return connect


@_receive(signals.attempts_recorded)
def log_outcomes(*, recorded: list[tuple[Attempt, Outcome]], **_: Any) -> None:
    """Log failures; successes at debug level."""
    every = logger.isEnabledFor(logging.DEBUG)
    for attempt, outcome in recorded:
        if every or not isinstance(outcome, Succeeded):
            _log_outcome(attempt, outcome)


def _log_outcome(attempt: Attempt, outcome: Outcome) -> None:
    described = {"job": attempt.id, "task": attempt.task, "attempt": attempt.number}
    match outcome:
        case Failed(failure):
            logger.error(
                "job %s (%s) is dead after attempt %s of %s: %s: %s",
                attempt.id,
                attempt.task,
                attempt.number,
                attempt.max_attempts,
                failure.exception,
                failure.message,
                extra=described,
            )
        case Retried(failure, delay):
            logger.warning(
                "job %s (%s) failed attempt %s of %s, retry in %.1f s: %s: %s",
                attempt.id,
                attempt.task,
                attempt.number,
                attempt.max_attempts,
                delay,
                failure.exception,
                failure.message,
                extra=described,
            )
        case Cancelled(failure):
            logger.info(
                "job %s (%s) was cancelled by its handler: %s",
                attempt.id,
                attempt.task,
                failure.message,
                extra=described,
            )
        case _:
            logger.debug(
                "job %s (%s) attempt %s: %s",
                attempt.id,
                attempt.task,
                attempt.number,
                type(outcome).__name__.lower(),
                extra=described,
            )


@_receive(signals.lease_lost)
def log_lease_lost(*, attempt: Any, verb: str, **_: Any) -> None:
    """Log a write that was refused, or a lease that was not renewed in time."""
    level, now = logging.WARNING, monotonic()
    if verb == "renew":
        if now - _Outage.last_lost < _LOST_INTERVAL:
            level = logging.DEBUG
        else:
            _Outage.last_lost = now
    logger.log(
        level,
        "lease lost: job %s (%s) attempt %s is no longer ours; nothing written (%s)",
        attempt.id,
        attempt.task,
        attempt.number,
        verb,
    )


@_receive(signals.lease_expired)
def log_lease_expired(*, reaped: Any, **_: Any) -> None:
    """Log a job that was brought back."""
    logger.warning(
        "lease expired: job %s (%s) attempt %s by %s; now %s",
        reaped.id,
        reaped.task,
        reaped.attempts,
        reaped.worker,
        reaped.state,
    )


@_receive(signals.outcome_refused)
def log_outcome_refused(*, attempt: Any, error: Exception, **_: Any) -> None:
    """Log an outcome that cannot be stored in any form."""
    logger.error("job %s (%s): outcome refused: %s", attempt.id, attempt.task, error)


@_receive(signals.outcome_ignored)
def log_outcome_ignored(*, attempt: Any, outcome: Outcome, **_: Any) -> None:
    """Log what a handler did after its success was recorded."""
    described = (attempt.id, attempt.task)
    match outcome:
        case Failed(failure) | Retried(failure) | Cancelled(failure):
            logger.error(
                "job %s (%s) has succeeded in fenced(), and then raised %s: %s\n%s",
                *described,
                failure.exception,
                failure.message,
                failure.traceback,
            )
        case _:
            logger.warning(
                "job %s (%s) has succeeded in fenced(); what its handler returned or "
                "asked for afterwards is not kept",
                *described,
            )


@_receive(signals.task_unknown)
def log_task_unknown(*, task: str, queue: str, **_: Any) -> None:
    """Log a task that this worker does not know."""
    logger.warning(
        "queue %s: task %r is not known here; its jobs are set aside for a worker that "
        "knows it",
        queue,
        task,
    )


@_receive(signals.transaction_left_open)
def log_transaction_left_open(*, attempt: Any, alias: str, **_: Any) -> None:
    """Log a handler that returned inside a transaction."""
    logger.warning(
        "job %s (%s) left a transaction open on database %r; it was rolled back",
        attempt.id,
        attempt.task,
        alias,
    )


@_receive(signals.tasks_module_failed)
def log_tasks_module_failed(*, module: str, failure: Any, **_: Any) -> None:
    """Log a module whose tasks are missing."""
    logger.error(
        "tasks of %s are missing, as it cannot be imported: %s: %s\n%s",
        module,
        failure.exception,
        failure.message,
        failure.traceback,
    )


@_receive(signals.code_changed)
def log_code_changed(*, path: str, **_: Any) -> None:
    """Log why a worker starts anew."""
    logger.info("%s has changed; starting anew after the running jobs", path)


@_receive(signals.loop_failed)
def log_loop_failed(*, loop: str, error: Exception, wait: float, **_: Any) -> None:
    """Log a loop's trouble, one line in five seconds for all loops."""
    now = monotonic()
    if now - _Outage.last_line >= _OUTAGE_INTERVAL:
        _Outage.last_line = now
        _Outage.is_told = True
        logger.warning(
            "%s: %s: %s; trying again in %.1f s",
            loop,
            type(error).__name__,
            str(error).partition("\n")[0],
            wait,
        )


@_receive(signals.loop_recovered)
def log_loop_recovered(*, loop: str, after: float, **_: Any) -> None:
    """Log the end of trouble that was told, once for all loops."""
    if not _Outage.is_told:
        return
    _Outage.is_told = False
    logger.info("%s: works again after %.1f s", loop, after)


@_receive(signals.worker_started)
def log_worker_started(*, identity: str, queues: str, threads: int, **_: Any) -> None:
    """Log a worker's start."""
    logger.info("worker %s serves %s with %s threads", identity, queues, threads)


@_receive(signals.worker_broken)
def log_worker_broken(*, identity: str, part: str, **_: Any) -> None:
    """Log why a worker ends on its own."""
    logger.critical("worker %s ends: its %s cannot go on", identity, part)


@_receive(signals.handler_stuck)
def log_handler_stuck(*, attempt: Attempt, **_: Any) -> None:
    """Log why a worker is about to be replaced."""
    logger.error(
        "%s (job %s) does not end when it is told to: the worker will be replaced",
        attempt.task,
        attempt.id,
    )


@_receive(signals.event_loop_blocked)
def log_event_loop_blocked(*, attempt: Attempt | None, where: str, **_: Any) -> None:
    """Log who keeps all async handlers of a worker from going on."""
    logger.warning(
        "the event loop is blocked by %s, at %s: async handlers must not wait but in "
        "`await`",
        f"{attempt.task} (job {attempt.id})" if attempt else "a task of a handler's",
        where,
    )


@_receive(signals.worker_stopped)
def log_worker_stopped(*, identity: str, exit_code: int, **_: Any) -> None:
    """Log a worker's end."""
    logger.info("worker %s has stopped with exit code %s", identity, exit_code)


@_receive(signals.child_died)
def log_child_died(*, pid: int, identity: str, exit_code: int, **_: Any) -> None:
    """Log the end of a worker process that did not end well."""
    how = f"exit code {exit_code}" if exit_code > 0 else f"signal {-exit_code}"
    logger.error("worker process %s (%s) died: %s", pid, identity, how)
