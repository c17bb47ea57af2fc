"""Hears of new jobs by NOTIFY, so that they need not wait for the next poll."""

import re
from collections.abc import Callable
from time import monotonic
from uuid import uuid4

from django.db.utils import OperationalError

from pgqueue_django.db import WorkerSession
from pgqueue_django.managers.hints import hint
from pgqueue_django.notifications import CANCEL_CHANNEL, DUE_CHANNEL, SOON_CHANNEL

_NUMBER = re.compile(r"\d{1,19}", re.ASCII)

# A wait for notifications ends after so long, to look at the connection (seconds).
_WAIT = 1.0

# After so long a silence the listener says something to itself, and must hear it within
# the other time (seconds): a connection can be dead without a sign, or be a pooler's.
_SILENCE = 8.0
ECHO = 3.0


class Listener:
    """Passes hints on to whom they concern.

    Args:
        session: The listener's own.
        on_due: Called with the queue in which a job became due.
        on_soon: Called when a job will be due before long.
        on_missed: Called when hints may have been missed, or will be.
        on_cancelled: Called with the ids of jobs that are said to be cancelled.
    """

    name = "listener"

    def __init__(
        self,
        session: WorkerSession,
        on_due: Callable[[str], None],
        on_soon: Callable[[], None],
        on_missed: Callable[[], None],
        on_cancelled: Callable[[list[int]], None],
    ) -> None:
        self._session = session
        self._on_due = on_due
        self._on_soon = on_soon
        self._on_missed = on_missed
        self._on_cancelled = on_cancelled
        self._own_channel = f"pgqueue_self_{uuid4().hex[:12]}"
        self._listening = False
        self._heard_at = 0.0
        self._asked_at: float | None = None

    def run_once(self) -> float:
        """Wait for hints for a moment, and pass them on."""
        if not self._listening:
            self._start()
        for channel, payload in self._session.notifications(_WAIT):
            self._heard(channel, payload)
        self._check()
        return 0.0

    def interrupt(self) -> None:
        """End the present wait for hints, by an error; for other threads."""
        self._session.abort()

    @property
    def hears(self) -> bool:
        """Whether hints arrive, as far as it knows."""
        return self._listening

    def close(self) -> None:
        """Close the connection."""
        was_listening, self._listening = self._listening, False
        self._session.close()
        if was_listening:
            self._on_missed()

    def _start(self) -> None:
        self._session.listen(
            (DUE_CHANNEL, SOON_CHANNEL, CANCEL_CHANNEL, self._own_channel)
        )
        self._listening = True
        self._heard_at, self._asked_at = monotonic(), None
        self._on_missed()

    def _heard(self, channel: str, payload: str) -> None:
        self._heard_at, self._asked_at = monotonic(), None
        if channel == DUE_CHANNEL:
            self._on_due(payload)
        elif channel == SOON_CHANNEL:
            self._on_soon()
        elif channel == CANCEL_CHANNEL:
            # Anybody may send anything; who looks up what is no number finds nothing.
            self._on_cancelled([int(id_) for id_ in _NUMBER.findall(payload)])

    def _check(self) -> None:
        now = monotonic()
        if self._asked_at is not None:
            if now - self._asked_at > ECHO:
                raise OperationalError("the listening connection does not hear itself")
        elif now - self._heard_at > _SILENCE:
            hint(self._session, self._own_channel, "")
            self._asked_at = now
