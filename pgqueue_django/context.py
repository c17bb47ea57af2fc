"""What a handler that asks for it is told about the attempt it is."""

from dataclasses import dataclass, field
from threading import Event

from pgqueue_django.compat import GenericTaskContext


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(GenericTaskContext):  # type: ignore[misc] # the stub is not frozen
    """Django's ``TaskContext``, with what this queue knows besides.

    A handler declared with ``takes_context=True`` gets it as its first argument, which
    must be called ``context``.
    """

    job_id: int
    """Key of the job's row."""

    # field() hides the property of the base class, which would become the default.
    attempt: int = field()
    """The number of this attempt, from 1."""

    max_attempts: int
    """After this many failed attempts the job is dead."""

    should_stop: Event = field(default_factory=Event, repr=False, compare=False)
    """Set when going on is of no use: the lease is lost, the job is cancelled, or the
    worker shuts down. ``should_stop.wait(seconds)`` is a sleep that ends in time."""

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job is dead if this attempt fails."""
        return self.attempt >= self.max_attempts
