"""A bound on how long something takes."""

import threading
import time

_PAUSE_SECONDS = 0.05  # a start takes about 0.1 s, with initdb 1 s
_LEAST_SECONDS = 0.1  # what a last try still gets


class Deadline:
    """A moment after which waiting ends.

    Args:
        seconds: From now.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds left, and a little for one more try."""
        return max(self._end - time.monotonic(), _LEAST_SECONDS)

    def has_passed(self) -> bool:
        """Tell whether the time is up."""
        return time.monotonic() >= self._end

    def pause(self) -> None:
        """Give others time before the next look."""
        threading.Event().wait(_PAUSE_SECONDS)
