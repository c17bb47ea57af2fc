"""A manager whose statements run on Django's connection, or on a given session."""

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Self

from django.db import models, router

from pgqueue_django.conf import get_settings
from pgqueue_django.db import DjangoSession, Session
from pgqueue_django.managers.hints import hint
from pgqueue_django.notifications import DUE_CHANNEL, HEARING_FACTOR, SOON_CHANNEL

if TYPE_CHECKING:
    from pgqueue_django.models import Job  # noqa: F401 - in the quotes below


class SessionManager(models.Manager["Job"]):
    """What the verbs have in common: where they run, and whom they tell."""

    _own_session: Session | None = None

    def on(self, session: Session) -> Self:
        """Return these operations on another session than Django's."""
        manager = copy(self)
        manager._own_session = session  # noqa: SLF001 - our own class
        return manager

    @property
    def session(self) -> Session:
        """Where statements run: the given session, or Django's by the routers."""
        if self._own_session is not None:
            return self._own_session
        return DjangoSession(self._db or router.db_for_write(self.model))

    def _hint_waits(self, session: Session, queue: str, waits: list[float]) -> None:
        soon = get_settings().poll_interval_seconds * HEARING_FACTOR
        if any(wait <= 0 for wait in waits):
            hint(session, DUE_CHANNEL, queue)
        if any(0 < wait < soon for wait in waits):
            hint(session, SOON_CHANNEL, queue)

    def _hint_due(self, session: Session, queues: Iterable[str]) -> None:
        for queue in sorted(queues):
            hint(session, DUE_CHANNEL, queue)


def counting() -> dict[str, object]:
    """Return the parameter of statements that count what they do."""
    return {"counted": get_settings().counters}
