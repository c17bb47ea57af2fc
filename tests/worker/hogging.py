"""One call that keeps Python's lock for about as long as it is asked to."""

import re
from math import ceil, log2
from time import monotonic


def match_badly_for(seconds: float) -> None:
    """Keep the lock, in the engine of regular expressions."""
    took, size = 0.0, 15
    while took < 0.05:
        size += 1
        took = _match_badly(size)
    # Each letter more doubles the time.
    _match_badly(size + ceil(log2(seconds / took)))


def _match_badly(size: int) -> float:
    began = monotonic()
    re.match(r"(a+)+$", "a" * size + "b")
    return monotonic() - began
