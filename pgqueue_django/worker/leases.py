"""The leases that this process holds, as far as it can know."""

from collections.abc import Iterable
from threading import Lock
from time import monotonic

from pgqueue_django.attempts import Attempt
from pgqueue_django.outcomes import Committed
from pgqueue_django.stop_event import StopEvent


class Lease:
    """One held job.

    Times are this process's monotonic clock. It was read before the statement that made
    the lease, so the lease ends here before it does in the database. ``doubtful`` is
    one whose outcome was sent to the database, and no answer came. ``committed`` is the
    success that the handler's own transaction has recorded. ``lost`` is one that is
    surely not ours any more: no outcome of its handler counts.
    """

    __slots__ = (
        "_should_stop",
        "_stopped",
        "attempt",
        "committed",
        "doubtful",
        "expires",
        "given_up",
        "lost",
        "taken",
    )

    def __init__(self, attempt: Attempt, taken: float, expires: float) -> None:
        self.attempt = attempt
        self.taken = taken
        self.expires = expires
        self.given_up = False
        self.doubtful = False
        self.lost = False
        self.committed: Committed | None = None
        self._stopped = False
        self._should_stop: StopEvent | None = None

    @property
    def should_stop(self) -> StopEvent:
        """What tells the handler that going on is of no use; made when it is asked."""
        if self._should_stop is None:
            self._should_stop = StopEvent()
            # After the assignment: whoever stops looks for the event after the flag.
            if self._stopped:
                self._should_stop.set()
        return self._should_stop

    def extended(self, since: float, seconds: float) -> None:
        """Note that it lasts so long from ``since`` (monotonic) on.

        It is renewed when as much of it is left as of any other lease.
        """
        length = self.expires - self.taken
        self.expires = since + seconds
        self.taken = self.expires - length

    def stop(self) -> None:
        """Tell the handler."""
        self._stopped = True
        if self._should_stop is not None:
            self._should_stop.set()


class Leases:
    """All held jobs; for use by several threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._held: dict[int, Lease] = {}
        self._replaced: list[Attempt] = []
        self._suspects: list[Attempt] = []

    def __len__(self) -> int:
        return len(self._held)

    def add(self, attempts: Iterable[Attempt], since: float) -> None:
        """Note new leases that began after ``since`` (monotonic)."""
        expires = since + self._seconds
        with self._lock:
            for attempt in attempts:
                if older := self._held.get(attempt.id):
                    self._replace(older)
                self._held[attempt.id] = Lease(attempt, since, expires)

    def renewed(self, attempts: Iterable[Attempt], since: float) -> None:
        """Note that leases were renewed after ``since`` (monotonic)."""
        with self._lock:
            for attempt in attempts:
                if lease := self.find(attempt):
                    lease.taken = since
                    lease.expires = since + self._seconds

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """Forget leases that were given back."""
        self.lose(attempts)

    def lose(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Forget leases that are not ours any more; tell their handlers.

        Returns:
            The attempts whose loss is news.
        """
        with self._lock:
            lost = [lease for attempt in attempts if (lease := self.find(attempt))]
            for lease in lost:
                lease.lost = True
                lease.stop()
                del self._held[lease.attempt.id]
        return [lease.attempt for lease in lost if not lease.given_up]

    def doubt(self, attempts: Iterable[Attempt]) -> None:
        """Note that outcomes were sent, and that no answer came."""
        with self._lock:
            for attempt in attempts:
                if lease := self.find(attempt):
                    lease.doubtful = True

    def doubtful(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Return those attempts whose outcomes may be recorded already."""
        with self._lock:
            found = [lease for attempt in attempts if (lease := self.find(attempt))]
        return [lease.attempt for lease in found if lease.doubtful]

    def find(self, attempt: Attempt) -> Lease | None:
        """Return the lease of this very attempt, if it is held."""
        lease = self._held.get(attempt.id)
        if lease is not None and lease.attempt.token == attempt.token:
            return lease
        return None

    def older_than(self, age: float) -> list[Attempt]:
        """Return attempts whose leases were taken or renewed ``age`` seconds ago."""
        before = monotonic() - age
        with self._lock:
            return [
                lease.attempt
                for lease in self._held.values()
                if lease.taken <= before and lease.committed is None
            ]

    def give_up_overdue(self) -> list[Attempt]:
        """Tell the handlers whose leases have surely ended, as nobody renewed them.

        Returns:
            The attempts of those that were not told before. Their outcomes may still
            be tried: the database knows whose the jobs are. With them, attempts whose
            jobs this very process has claimed again.
        """
        now = monotonic()
        with self._lock:
            replaced, self._replaced = self._replaced, []
            ended = [
                lease
                for lease in self._held.values()
                if lease.expires <= now
                and not lease.given_up
                and lease.committed is None
            ]
            for lease in ended:
                lease.given_up = True
                lease.stop()
        return replaced + [lease.attempt for lease in ended]

    def suspect(self, ids: Iterable[int]) -> bool:
        """Note that somebody says these jobs are taken away; tell if any is held."""
        with self._lock:
            held = [self._held[id_].attempt for id_ in ids if id_ in self._held]
            self._suspects += held
        return bool(held)

    def take_suspects(self) -> list[Attempt]:
        """Return the suspected attempts that are still held, each time but once."""
        with self._lock:
            suspects, self._suspects = self._suspects, []
            leases = [lease for each in suspects if (lease := self.find(each))]
        return [lease.attempt for lease in leases if lease.committed is None]

    def all(self) -> list[Attempt]:
        """Return all held attempts."""
        with self._lock:
            return [lease.attempt for lease in self._held.values()]

    def ask_to_stop(self) -> None:
        """Tell all handlers that they should come to an end."""
        with self._lock:
            for lease in self._held.values():
                lease.stop()

    def _replace(self, older: Lease) -> None:
        older.lost = True
        older.stop()
        if not older.given_up:
            self._replaced.append(older.attempt)
