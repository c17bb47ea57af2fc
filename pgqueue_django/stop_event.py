"""An event that threads and coroutines can wait for."""

import asyncio
from contextlib import suppress
from threading import Event
from typing import Any

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class StopEvent(Event):
    """A ``threading.Event``, with a wait for async code."""

    def __init__(self) -> None:
        super().__init__()
        self._waiters: set[_Waiter] = set()

    def set(self) -> None:
        """Set it, and wake all who wait."""
        super().set()
        for loop, waiter in self._waiters.copy():
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(_wake, waiter)

    async def wait_async(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Do as ``wait``, from async code: the event loop goes on meanwhile.

        Args:
            timeout: Seconds to wait at the most; None is for ever.

        Returns:
            Whether it is set.
        """
        loop = asyncio.get_running_loop()
        waiter = (loop, loop.create_future())
        # Before the look: whoever sets it later finds the waiter.
        self._waiters.add(waiter)
        try:
            if not self.is_set():
                await asyncio.wait([waiter[1]], timeout=timeout)
            return self.is_set()
        finally:
            self._waiters.discard(waiter)


def _wake(waiter: "asyncio.Future[Any]") -> None:
    if not waiter.done():
        waiter.set_result(None)
