"""The signals that end a process, as its own for a while."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals_go_to(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Hand SIGTERM and SIGINT to a function, and give them back after the block."""
    before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
