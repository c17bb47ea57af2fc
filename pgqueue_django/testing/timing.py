"""Time limits in tests: nobody else enforces them there."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from pgqueue_django.worker.timeouts import TimeLimits

# How often to look for handlers that are past their limits (seconds).
_INTERVAL: Final = 0.02


@contextmanager
def enforced(limits: TimeLimits, timeout: float | None) -> Iterator[None]:
    """End handlers that take too long, if there is a limit at all (seconds)."""
    if timeout is None:
        yield
        return
    over = Event()

    def enforce() -> None:
        while not over.wait(_INTERVAL):
            limits.enforce()

    watch = Thread(target=enforce, name="pgqueue-test-limits", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
