"""Where the last claim from a queue ended: the next need not begin at its head.

While somebody's long transaction holds back vacuum, entries of claimed jobs stay at the
head of the claim index, and every scan from there walks them again. A scan that begins
where the last one ended does not.
"""

from time import monotonic

from pgqueue_django.attempts import Place

# What lies before the place (more urgent jobs, jobs that came back) is looked for at
# least so often (seconds).
_HEAD_INTERVAL = 1.0

# The share of the time that looks from the head may take, when they are asked for more
# often than that.
_HEAD_SHARE = 0.1


class Throttle:
    """Keeps looks of one kind to a share of the time."""

    def __init__(self) -> None:
        self._allowed = 0.0

    def looked(self, since: float) -> None:
        """Note a look that began at ``since`` (monotonic)."""
        now = monotonic()
        wait = (now - since) * (1 / _HEAD_SHARE - 1)
        self._allowed = now + min(wait, _HEAD_INTERVAL)

    @property
    def wait(self) -> float:
        """Seconds until the next look may be afforded; 0 or less is now."""
        return self._allowed - monotonic()


class QueuePlace:
    """The place in one queue, and when to look from its head again."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._head_due = 0.0
        self._throttle = Throttle()

    @property
    def start(self) -> Place | None:
        """After which place to look next; None is from the head."""
        return None if monotonic() >= self._head_due else self._place

    def moved(self, place: Place) -> None:
        """Go on after this place."""
        self._place = place

    def looked_from_head(self, since: float, *, emptied: bool) -> None:
        """Note a look from the head.

        Args:
            since: When it began (monotonic).
            emptied: Whether it left nothing. As long as looks from the head can be
                afforded, one such look then does what it takes two for from the place.
        """
        self._throttle.looked(since)
        wait = self._throttle.wait if emptied else _HEAD_INTERVAL
        self._head_due = monotonic() + wait

    def found_end(self) -> float:
        """Note a look from the place that came to the end of the queue.

        What is left can only be before the place.

        Returns:
            Seconds until a look from the head may be afforded; 0 is now.
        """
        wait = max(0.0, self._throttle.wait)
        self._head_due = monotonic() + wait
        return wait
