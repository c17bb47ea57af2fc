"""Deletes finished jobs that are old enough."""

from collections.abc import Callable
from datetime import datetime
from random import uniform
from time import monotonic
from typing import Final

from django.db import OperationalError

from pgqueue_django.conf import get_settings
from pgqueue_django.db import Session
from pgqueue_django.db.bounded import was_cancelled
from pgqueue_django.managers import pruning
from pgqueue_django.managers.pruning import Group

Keep = Callable[[str, str], float | None]
"""Tells how long jobs of a queue and state are kept: seconds, or None for ever."""

# Time between two looks for what has grown old (seconds).
_INTERVAL: Final = 60.0

# How long a batch should take (seconds): the promoter waits for it on the same thread.
_BATCH_SECONDS: Final = 0.01
_FIRST_BATCH: Final = 200
_LARGEST_BATCH: Final = 5_000

# How much longer all pruners together rest than they work.
_REST: Final = 9


class Sweep:
    """One pass over all that is old enough, a batch at a time.

    Each batch is a statement of its own: what it deleted stays deleted, whatever comes
    after.

    Args:
        session: Where statements run.
        keep: How long to keep what.
        batch: Most jobs to delete at once.
    """

    def __init__(self, session: Session, keep: Keep, *, batch: int) -> None:
        self._session = session
        self._keep = keep
        self.batch = batch
        self._waiting = [
            (group, age)
            for group in pruning.finished_groups(session)
            if (age := keep(group.queue, group.state)) is not None
            and group.oldest > age
        ]
        self._since: datetime | None = None

    @property
    def groups(self) -> list[tuple[Group, float]]:
        """What is still to be looked at, with how long it is kept (seconds)."""
        return list(self._waiting)

    def step(self) -> int:
        """Delete a batch, and return how many jobs that were; 0 may not be the end."""
        group, age = self._waiting[0]
        try:
            pruned = pruning.prune_group(
                self._session, group, age=age, limit=self.batch, since=self._since
            )
        except OperationalError as error:
            # The server's own limit for a statement is too short for so many.
            if self.batch == 1 or not was_cancelled(error):
                raise
            self.batch = max(1, self.batch // 4)
            return 0
        self._since = pruned.upto
        if pruned.deleted < self.batch:
            self._waiting.pop(0)
            self._since = None
        return pruned.deleted


class Pruner:
    """Keeps to ``PGQUEUE["RETENTION"]``, and out of the way of the claims.

    All pruners together delete for about a tenth of the time, however many workers
    there are.

    Args:
        session: Where statements run.
        fellows: What the application names of all pruners' sessions begin with.
    """

    name = "pruner"

    def __init__(self, session: Session, fellows: str) -> None:
        self._session = session
        self._fellows = fellows
        self._batch = _FIRST_BATCH
        self._sweep: Sweep | None = None
        self._share = 1

    def run_once(self) -> float:
        """Delete one batch, and rest; after the last one, for a minute."""
        if self._sweep is None:
            self._sweep = Sweep(
                self._session, get_settings().retention_of, batch=self._batch
            )
            if not self._sweep.groups:
                return self._end()
            self._share = pruning.count_sessions(self._session, self._fellows)
        since = monotonic()
        self._sweep.batch = self._batch
        deleted = self._sweep.step()
        took = monotonic() - since
        self._adapt(self._sweep.batch, deleted, took)
        if not self._sweep.groups:
            return self._end()
        return took * (max(1, self._share) * (_REST + 1) - 1)

    def close(self) -> None:
        """Close the connection, and begin anew."""
        self._sweep = None
        self._session.close()

    def _adapt(self, batch: int, deleted: int, took: float) -> None:
        if took > 2 * _BATCH_SECONDS:
            batch = max(1, batch // 2)
        elif deleted == batch and took < _BATCH_SECONDS / 2:
            batch = min(_LARGEST_BATCH, batch * 2)
        self._batch = batch

    def _end(self) -> float:
        self._sweep = None
        # At random, so that the workers' sweeps spread over the interval.
        return _INTERVAL * uniform(0.75, 1.25)
