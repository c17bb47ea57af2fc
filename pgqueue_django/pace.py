"""How often to look for what nobody has told of."""

from collections.abc import Callable
from random import uniform
from time import monotonic

from pgqueue_django.notifications import HEARING_FACTOR


class Pace:
    """The time between two looks: longer while hints are heard, and never quite even.

    Args:
        interval: Longest time between two looks when no hints are heard (seconds).
        hears: Tells whether hints are heard now.
    """

    def __init__(self, interval: float, hears: Callable[[], bool]) -> None:
        self._interval = interval
        self._hears = hears
        self._since = float("-inf")
        self._jitter = 1.0

    def looked(self) -> None:
        """Note a look that begins now."""
        self._since = monotonic()
        # So that workers do not all look at the same moment.
        self._jitter = uniform(0.75, 1.0)

    @property
    def left(self) -> float:
        """Seconds until the next look is due; 0 is now."""
        longest = self._interval * (HEARING_FACTOR if self._hears() else 1)
        return max(0.0, self._since + longest * self._jitter - monotonic())
