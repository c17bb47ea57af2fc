"""Records outcomes, many in one statement."""

from collections import defaultdict, deque
from collections.abc import Callable
from threading import Event

from django.db import Error

from pgqueue_django import signals
from pgqueue_django.attempts import Attempt, Write, Written
from pgqueue_django.db import Session, is_bad_value
from pgqueue_django.failures import Failure
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.models import Job
from pgqueue_django.outcomes import (
    Cancelled,
    Committed,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from pgqueue_django.worker.leases import Leases

Recordable = tuple[Attempt, Outcome]

# How long a row that somebody has locked is left alone before the next try (seconds).
_BUSY_WAIT = 0.05

# How long the completer sleeps when there is nothing to record (seconds).
_IDLE_WAIT = 1.0


class Completer:
    """Takes outcomes from handlers, and writes them in batches.

    An outcome stays here until the database has it, or has refused it: through lost
    connections, and while its row is locked by somebody.

    Args:
        session: The completer's own.
        leases: What this process holds.
        identity: The worker's.
        flush_size: Most new outcomes in one batch.
        flush_seconds: Longest time that an outcome waits for others.
        on_waiting: Called with the queue and the delay (seconds) of a job that waits
            again.
        on_flushed: Called when a batch has been written.
    """

    name = "completer"

    def __init__(
        self,
        session: Session,
        leases: Leases,
        *,
        identity: str,
        flush_size: int,
        flush_seconds: float,
        on_waiting: Callable[[str, float], None],
        on_flushed: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._jobs: JobManager = Job.objects.on(session)
        self._leases = leases
        self._identity = identity
        self._flush_size = flush_size
        self._flush_seconds = flush_seconds
        self._on_waiting = on_waiting
        self._on_flushed = on_flushed
        self._given: deque[Recordable] = deque()
        self._some = Event()
        self._enough = Event()
        self._batch: list[Recordable] = []
        self._some_busy = False

    @property
    def backlog(self) -> int:
        """How many outcomes are not recorded yet."""
        return len(self._given) + len(self._batch)

    def put(self, attempt: Attempt, outcome: Outcome) -> None:
        """Hand an outcome over; returns at once."""
        self._given.append((attempt, outcome))
        # After the append: the completer looks again after it has cleared an event.
        if not self._some.is_set():
            self._some.set()
        if self._is_enough() and not self._enough.is_set():
            self._enough.set()

    def interrupt(self) -> None:
        """End the present wait for outcomes."""
        self._some.set()
        self._enough.set()

    def run_once(self) -> float:
        """Gather a batch, and record it."""
        self._gather()
        self._flush()
        self._on_flushed()
        return 0.0

    def close(self) -> None:
        """Close the connection; what is not recorded stays."""
        self._session.close()

    # --- gather -----------------------------------------------------------------------

    def _gather(self) -> None:
        """Add to the batch: enough, or all that come while the first one waits."""
        if not self._given:
            self._some.wait(self._first_wait())
        self._some.clear()
        if not self._given:
            return
        self._enough.clear()
        if not self._is_enough():
            self._enough.wait(self._flush_seconds)
        for _ in range(min(len(self._given), self._flush_size)):
            # Here before it is gone there: the backlog never counts too few.
            self._batch.append(self._given[0])
            self._given.popleft()

    def _is_enough(self) -> bool:
        """Tell whether there is a full batch, or all that can come."""
        given = len(self._given)
        return given >= self._flush_size or given + len(self._batch) >= len(
            self._leases
        )

    def _first_wait(self) -> float:
        if not self._batch:
            return _IDLE_WAIT
        return _BUSY_WAIT if self._some_busy else 0.0

    # --- record -----------------------------------------------------------------------

    def _flush(self) -> None:
        self._some_busy = False
        groups: dict[type[Outcome], list[Recordable]] = defaultdict(list)
        for entry in self._batch:
            groups[type(entry[1])].append(entry)
        for kind, record in _RECORDERS.items():
            if held := self._held(groups[kind]):
                self._record(record, held)

    def _held(self, chosen: list[Recordable]) -> list[Recordable]:
        """Return one outcome for each job that is still ours, and forget the others.

        Those were lost, and somebody has said so; or another outcome came first.
        """
        held = {entry[0].id: entry for entry in chosen if self._leases.find(entry[0])}
        if len(held) == len(chosen):
            return chosen
        kept = set(map(id, held.values()))
        self._forget([entry for entry in chosen if id(entry) not in kept])
        return list(held.values())

    def _record(self, record: "_Recorder", chosen: list[Recordable]) -> None:
        try:
            written = record(self._jobs, [_write_of(*entry) for entry in chosen])
            written = self._without_doubt(written)
        except Error as error:
            if is_bad_value(error):
                self._record_apart(record, chosen, error)
            else:
                self._leases.doubt(attempt for attempt, _ in chosen)
                raise
        else:
            self._settle(chosen, written)

    def _without_doubt(self, written: Written) -> Written:
        """Find out which lost ones were recorded before, when no answer came."""
        if not (doubtful := self._leases.doubtful(written.lost)):
            return written
        recorded = self._jobs.recorded(doubtful, worker=self._identity)
        return Written(
            done=written.done + [a for a in doubtful if a.id in recorded],
            lost=[a for a in written.lost if a.id not in recorded],
            busy=written.busy,
        )

    def _record_apart(
        self, record: "_Recorder", chosen: list[Recordable], error: Error
    ) -> None:
        """Record one by one, so that only the bad one suffers."""
        if len(chosen) > 1:
            for entry in chosen:
                self._record(record, [entry])
            return
        attempt, outcome = chosen[0]
        if isinstance(outcome, Succeeded):
            self.put(attempt, Failed(Failure.of(error)))
            self._forget(chosen)
        else:
            # Nothing more can be said of it; its lease ends, and the reaper says so.
            self._leases.drop([attempt])
            self._forget(chosen)
            signals.outcome_refused.send_robust(
                Completer, attempt=attempt, outcome=outcome, error=error
            )

    def _settle(self, chosen: list[Recordable], written: Written) -> None:
        outcomes = {attempt.id: outcome for attempt, outcome in chosen}
        done = [(attempt, outcomes[attempt.id]) for attempt in written.done]
        busy = {attempt.id for attempt in written.busy}
        self._some_busy = self._some_busy or bool(busy)
        # Before the leases go: a worker that drains must not take all for done.
        self._announce(done)
        self._leases.drop(written.done)
        lost = self._leases.lose(written.lost)
        self._forget([entry for entry in chosen if entry[0].id not in busy])
        if done:
            signals.attempts_recorded.send_robust(Completer, recorded=done)
        for attempt in lost:
            verb = type(outcomes[attempt.id]).__name__.lower()
            signals.lease_lost.send_robust(Completer, attempt=attempt, verb=verb)

    def _announce(self, done: list[Recordable]) -> None:
        for attempt, outcome in done:
            match outcome:
                case Succeeded():
                    pass
                case Retried(delay=delay) | Snoozed(delay=delay):
                    self._on_waiting(attempt.queue, delay)
                case Released():
                    self._on_waiting(attempt.queue, 0.0)

    def _forget(self, chosen: list[Recordable]) -> None:
        if len(chosen) == len(self._batch):
            self._batch = []
            return
        gone = set(map(id, chosen))
        self._batch = [entry for entry in self._batch if id(entry) not in gone]


_Recorder = Callable[[JobManager, list[Write]], Written]


def _write_nothing(_jobs: JobManager, writes: list[Write]) -> Written:
    return Written([write.attempt for write in writes], [], [])


_RECORDERS: dict[type[Outcome], _Recorder] = {
    Committed: _write_nothing,
    Succeeded: JobManager.ack_many,
    Retried: JobManager.retry_many,
    Failed: JobManager.fail_many,
    Snoozed: JobManager.snooze_many,
    Cancelled: JobManager.cancel_held_many,
    Released: JobManager.release_many,
}


def _write_of(attempt: Attempt, outcome: Outcome) -> Write:
    match outcome:
        case Succeeded(result):
            return Write(attempt, detail=result)
        case Retried(failure, delay):
            return Write(attempt, delay, failure.as_json())
        case Failed(failure) | Cancelled(failure):
            return Write(attempt, detail=failure.as_json())
        case Snoozed(delay):
            return Write(attempt, delay)
        case Released():
            return Write(attempt)
