"""A steady rate."""

from collections.abc import Iterator
from threading import Event
from time import monotonic


def paced(rate: float, count: int) -> Iterator[int]:
    """Count, each number at its time.

    Args:
        rate: Numbers in a second.
        count: How many.

    Yields:
        0, 1, …; at once where the caller has fallen behind, so that the rate stays.
    """
    begun, waiting = monotonic(), Event()
    for n in range(count):
        if (wait := begun + n / rate - monotonic()) > 0:
            waiting.wait(wait)
        yield n
