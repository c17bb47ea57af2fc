"""Runs jobs in a test: the worker's own parts, on the test's connection."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any, Final, Literal

from django.db import DatabaseError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue_django.attempts import Attempt
from pgqueue_django.compat import task_enqueued
from pgqueue_django.db import DjangoSession
from pgqueue_django.models import Job
from pgqueue_django.outcomes import Outcome, Retried
from pgqueue_django.registry import registry
from pgqueue_django.states import State
from pgqueue_django.testing.timing import enforced
from pgqueue_django.testing.travelling import make_due, promote
from pgqueue_django.worker.completer import Completer
from pgqueue_django.worker.executor import Executor
from pgqueue_django.worker.leases import Leases
from pgqueue_django.worker.timeouts import TimeLimits

_WORKER: Final = "test"

# Longer than any test, since nobody renews leases here (seconds).
_LEASE: Final = 86_400.0

Until = Literal["idle", "due"]


def run_jobs(
    *, queues: Iterable[str] | None = None, until: Until = "idle", limit: int = 1_000
) -> list[Job]:
    """Run jobs in this thread, as a worker would, and return when none is left.

    Args:
        queues: Only jobs of these; None is all.
        until: ``"idle"`` runs what is due, what that enqueues, and every retry at once,
            without its wait. ``"due"`` leaves retries waiting for ``travel()``. Jobs
            with a later start, and jobs that snooze, wait either way.
        limit: Most attempts to run.

    Returns:
        The jobs that ran, as they are now, in the order of their first attempts.

    Raises:
        AssertionError: There were more than ``limit`` attempts to run.
        UnknownTask: A job's task is not registered.

    Concurrency:
        Everything happens on Django's connections of this thread. In a transaction,
        as in a ``TestCase``, each handler has a savepoint: an error of the database
        undoes what it wrote, and the transaction goes on.
    """
    names = None if queues is None else set(queues)
    worker = _Worker()
    ran: list[int] = []
    while attempt := worker.claim(names):
        if len(ran) == limit:
            raise AssertionError(f"More than {limit} attempts: do jobs never end?")
        outcome = worker.run(attempt)
        ran.append(attempt.id)
        if until == "idle" and isinstance(outcome, Retried):
            make_due([attempt.id])
    found = Job.objects.in_bulk(ran)
    return [found[id_] for id_ in dict.fromkeys(ran) if id_ in found]


@contextmanager
def inline(*, until: Until = "idle") -> Iterator[None]:
    """Run jobs at once when they are enqueued, as ``run_jobs()`` does.

    The job is stored and claimed like any other, so that its arguments, its signals and
    its refusals are those of production. ``enqueue()`` returns the result as it was
    stored; ``result.refresh()`` tells the end. Jobs that jobs enqueue follow them.

    Args:
        until: As in ``run_jobs``.
    """
    busy = False

    def run(**_: Any) -> None:
        nonlocal busy
        if busy:
            return
        busy = True
        try:
            run_jobs(until=until)
        finally:
            busy = False

    task_enqueued.connect(run, weak=False)
    try:
        yield
    finally:
        task_enqueued.disconnect(run)


class _Worker:
    """Claims, runs and records one job after the other."""

    def __init__(self) -> None:
        self._leases = Leases(_LEASE)
        self._limits = TimeLimits()
        self._executor = Executor(self._limits)
        self._completer = Completer(
            DjangoSession(router.db_for_write(Job)),
            self._leases,
            identity=_WORKER,
            flush_size=1,
            flush_seconds=0.0,
            on_waiting=lambda _queue, _delay: None,
        )

    def claim(self, queues: set[str] | None) -> Attempt | None:
        promote()
        due = Job.objects.filter(state=State.QUEUED).order_by("queue")
        for queue in due.values_list("queue", flat=True).distinct():
            if queues is None or queue in queues:
                return self._claim(queue)
        return None

    def run(self, attempt: Attempt) -> Outcome:
        lease = self._leases.find(attempt)
        assert lease is not None  # noqa: S101 - claim() has just noted it
        with enforced(self._limits, attempt.timeout_seconds):
            outcome = _in_place(lambda: self._executor.run(attempt, lease))
        self._completer.put(attempt, outcome)
        self._completer.run_once()
        return outcome

    def _claim(self, queue: str) -> Attempt | None:
        since = monotonic()
        taken = Job.objects.claim(queue, limit=1, worker=_WORKER, lease=_LEASE)
        for attempt in taken:
            registry.get(attempt.task)
        self._leases.add(taken, since)
        return taken[0] if taken else None


def _in_place(run: Callable[[], Outcome]) -> Outcome:
    """Run a handler inside the test's transactions as if there were none."""
    with ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block:
                stack.enter_context(_transaction_of_its_own(connection))
        outcome = run()
    return outcome  # noqa: RET504 - a stack may swallow, as far as mypy knows


@contextmanager
def _transaction_of_its_own(connection: BaseDatabaseWrapper) -> Iterator[None]:
    before = len(connection.run_on_commit)
    block = transaction.atomic(using=connection.alias)
    # As TestCase marks its own: a handler's durable block sees nobody around it.
    block._from_testcase = True  # type: ignore[attr-defined] # noqa: SLF001
    try:
        with block:
            yield
    except DatabaseError:
        # The handler's statement failed outside any block of its own: the savepoint
        # could not be released, and was rolled back. The outcome tells the error.
        pass
    callbacks = connection.run_on_commit[before:]
    del connection.run_on_commit[before:]
    for _savepoints, callback, *_ in callbacks:
        callback()
