"""Waiting for what another thread, process or session does; never for mere time."""

from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

# Seconds between two looks.
_PAUSE = 0.01


def wait_until(condition: Callable[[], T], timeout: float = 10.0) -> T:
    """Return the condition's first true value.

    Args:
        condition: Asked again and again.
        timeout: Longest wait in seconds.

    Raises:
        AssertionError: It did not come true in time.
    """
    deadline = monotonic() + timeout
    pause = Event()
    while True:
        if value := condition():
            return value
        if monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {condition}")
        pause.wait(_PAUSE)
