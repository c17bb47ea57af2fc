"""NOTIFY as a hint to workers: sent after the commit, once for each queue."""

from dataclasses import dataclass

from pgqueue_django.conf import get_settings
from pgqueue_django.db import Session
from pgqueue_django.sql import hints as sql


@dataclass(frozen=True, slots=True)
class Hint:
    """A notification to send; equal ones in one transaction are sent once."""

    session: Session
    channel: str
    queue: str

    def __call__(self) -> None:
        """Send it."""
        alone = not self.session.in_transaction()
        statement = sql.NOTIFY_ALONE if alone else sql.NOTIFY
        self.session.rows(statement, {"channel": self.channel, "payload": self.queue})


def hint(session: Session, channel: str, queue: str) -> None:
    """Tell listening workers of a queue, once what the caller wrote is committed."""
    if get_settings().notify:
        session.after_commit(Hint(session, channel, queue))
