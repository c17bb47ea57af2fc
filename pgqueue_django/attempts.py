"""What a claim gives to a worker."""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a job stands in its queue, by the order of claims.

    ``run_at`` is as the server writes it, for the server alone: to make a datetime of
    it takes longer than to fetch all the rest of a job.
    """

    priority: int
    run_at: str
    id: int


class Attempt(NamedTuple):
    """One claim of a job, as the worker that made it knows it.

    ``(queue, id, token)`` is the fence of every later write. ``args`` and ``kwargs``
    are JSON text as stored, so that one row that Python cannot read spoils no batch.
    ``number`` is 1 for the first attempt.
    """

    queue: str
    id: int
    token: str
    task: str
    args: str
    kwargs: str
    number: int
    max_attempts: int
    timeout_seconds: float | None
    priority: int
    run_at: str

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from all others; all attempts of one claim share its token."""
        return self.id, self.token

    @property
    def place(self) -> "Place":
        """Where the job stood in its queue."""
        return Place(self.priority, self.run_at, self.id)


class Write(NamedTuple):
    """What to write of one attempt.

    ``delay`` is in seconds from the database's now; ``detail`` is JSON text: a result,
    or a failure.
    """

    attempt: Attempt
    delay: float | None = None
    detail: str | None = None


class Written(NamedTuple):
    """What became of a batch of writes.

    ``lost`` are attempts whose lease is another's or nobody's now: nothing was written
    and nothing more can be. ``busy`` are rows that somebody has locked for the moment,
    to be tried again.
    """

    done: list[Attempt]
    lost: list[Attempt]
    busy: list[Attempt]
