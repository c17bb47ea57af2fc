"""Whether the database answers, told in bounded time whatever it does."""

from threading import Event, Lock, Thread
from time import monotonic
from typing import Final, NamedTuple

from django.db import Error

from pgqueue_django.db.probe import Probe
from pgqueue_django.managers.health import table_is_there
from pgqueue_django.stats.jobs import database

# A caller is promised an answer within 2 s, and the web server takes some of that.
DEADLINE_SECONDS: Final = 1.2

# Callers in quick succession share an answer, so that nobody can make this process
# open more connections a second than this allows.
REUSE_SECONDS: Final = 0.25


class Health(NamedTuple):
    """Whether the queue can be used, and if not why, in words fit for strangers."""

    ok: bool
    reason: str = ""


SILENT: Final = Health(ok=False, reason="the database does not answer in time")
UNREACHABLE: Final = Health(ok=False, reason="the database cannot be reached")
UNMIGRATED: Final = Health(ok=False, reason="the job table is missing: run migrate")
EXHAUSTED: Final = Health(ok=False, reason="no thread is left to ask the database")


class _Question(Thread):
    """One question to the database, on a thread and a connection of its own."""

    def __init__(self, alias: str, deadline: float) -> None:
        super().__init__(name="pgqueue-health", daemon=True)
        self._probe = Probe(alias, name="pgqueue health", seconds=deadline)
        self._answered = Event()
        self._health = SILENT
        self._give_up_at = monotonic() + deadline
        self._answered_at = 0.0

    def run(self) -> None:
        try:
            there = table_is_there(self._probe)
            self._health = Health(ok=True) if there else UNMIGRATED
        except TimeoutError:
            self._health = SILENT
        except Error:
            self._health = UNREACHABLE
        finally:
            self._answered_at = monotonic()
            self._answered.set()

    def is_over(self) -> bool:
        """Tell whether a new caller needs a new question."""
        # Its thread may have died unheard, too: a fork leaves all but one behind.
        return not self.is_alive() and monotonic() > self._answered_at + REUSE_SECONDS

    def answer(self) -> Health:
        """Wait for the answer until the deadline, and no longer."""
        self._answered.wait(max(0.0, self._give_up_at - monotonic()))
        return self._health


class HealthCheck:
    """Answers any number of callers with one connection and one thread at a time.

    A question gives up at its deadline by itself, but for the look-up of a host's name,
    which nothing can stop. Its callers get their answer at the deadline all the same,
    and while it hangs no other is asked: later callers get theirs at once.

    Args:
        alias: The database to ask; None leaves it to the routers.
        deadline: Most seconds from a question to its answer.
    """

    def __init__(
        self, alias: str | None = None, *, deadline: float = DEADLINE_SECONDS
    ) -> None:
        self._alias = alias
        self._deadline = deadline
        self._asking = Lock()
        self._question: _Question | None = None

    def __call__(self) -> Health:
        """Return how the database is.

        Concurrency: safe from any thread; takes as long as the deadline at most.
        """
        try:
            return self._current().answer()
        except RuntimeError:  # The system gives no more threads.
            return EXHAUSTED

    def _current(self) -> _Question:
        with self._asking:
            if self._question is None or self._question.is_over():
                question = _Question(self._alias or database(), self._deadline)
                question.start()
                self._question = question
            return self._question


check_health = HealthCheck()
