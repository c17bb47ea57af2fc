"""Says that this worker is there, for people to look at; nothing depends on it."""

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from django.db import Error

from pgqueue_django import signals
from pgqueue_django.db import Session
from pgqueue_django.managers.workers import Introduction, beat, leave

# Time between two beats (seconds).
_INTERVAL: Final = 15.0


class Presence:
    """Keeps the worker's row in the registry.

    A failure is told once, and harms nothing: the next beat tries again.

    Args:
        session: Its own.
        worker: Who it is.
        running: Returns how many jobs run.
    """

    name = "presence"

    def __init__(
        self, session: Session, worker: Introduction, running: Callable[[], int]
    ) -> None:
        self._session = session
        self._worker = worker
        self._running = running
        self._since = monotonic()
        self._written = False
        self._failing_since: float | None = None

    def run_once(self) -> float:
        """Write a beat; the next is due in a while, whatever became of it."""
        try:
            age = monotonic() - self._since
            beat(self._session, self._worker, running=self._running(), age=age)
        except Error as error:
            self._failed(error)
        else:
            self._succeeded()
        return _INTERVAL

    def close(self) -> None:
        """Take the row away, if the database was there a moment ago."""
        with suppress(Error):
            if self._written:
                leave(self._session, self._worker.name)
        self._written = False
        self._session.close()

    def _failed(self, error: Error) -> None:
        self._written = False
        self._session.close()
        if self._failing_since is None:
            self._failing_since = monotonic()
            signals.loop_failed.send_robust(
                Presence, loop=self.name, error=error, wait=_INTERVAL
            )

    def _succeeded(self) -> None:
        self._written = True
        if self._failing_since is not None:
            after = monotonic() - self._failing_since
            self._failing_since = None
            signals.loop_recovered.send_robust(Presence, loop=self.name, after=after)
