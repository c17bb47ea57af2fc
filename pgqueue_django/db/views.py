"""Several statements that see the database as of one moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final, LiteralString

from pgqueue_django.db.sessions import Session
from pgqueue_django.db.worker_session import WorkerSession

_ONE_VIEW: Final[LiteralString] = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
)
# What is asked has an index each; where statistics are stale the planner could take the
# whole table for a small one. What must be scanned all the same is not worth compiling.
_LIMITS: Final[LiteralString] = (
    "SELECT set_config('statement_timeout', %(limit)s::text, true),"
    " set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
)


@contextmanager
def one_view(alias: str, *, name: str, seconds: float) -> Iterator[Session]:
    """Yield a session of its own, in a transaction that reads one view.

    Args:
        alias: The database's alias in ``settings.DATABASES``.
        name: What ``pg_stat_activity`` shows as the application.
        seconds: The time for each statement, which the server ends by itself; a server
            that does not answer is left after one and a half times as much.

    Raises:
        django.db.utils.Error: Whatever the database says.
    """
    session = WorkerSession(alias, name=name, prepare=False)
    patience = Timer(1.5 * seconds, session.abort)
    patience.daemon = True
    patience.name = "pgqueue-view"
    patience.start()
    try:
        with session.atomic():
            session.rows(_ONE_VIEW, {})
            session.rows(_LIMITS, {"limit": f"{round(seconds * 1000)}ms"})
            yield session
    finally:
        patience.cancel()
        session.close()
