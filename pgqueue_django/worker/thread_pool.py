"""Threads that run synchronous handlers."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import monotonic

from pgqueue_django.attempts import Attempt
from pgqueue_django.worker.slots import Slots


class ThreadPool(Slots):
    """A fixed number of threads, each running one attempt at a time.

    Args:
        threads: How many.
        run: Runs one attempt and hands its outcome over; never raises.
        on_room: Called when there is room for more.
        on_exit: Called in each thread at its end.
    """

    def __init__(
        self,
        threads: int,
        run: Callable[[Attempt], None],
        on_room: Callable[[], None],
        on_exit: Callable[[], None],
    ) -> None:
        super().__init__(threads, on_room)
        self._run = run
        self._on_exit = on_exit
        self._parked = 0
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        self._all = [
            Thread(target=self._work, name=f"pgqueue-handler-{n}", daemon=True)
            for n in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._all:
            thread.start()

    @property
    def whole(self) -> bool:
        """Whether all threads run."""
        return all(thread.is_alive() for thread in self._all)

    def submit(self, attempts: list[Attempt]) -> None:
        """Run attempts, in order, as soon as threads are free."""
        with self._lock:
            self._add(attempts)
            self._wake(len(attempts))

    def stop(self) -> None:
        """Let each thread end after the attempt that it runs."""
        with self._lock:
            self._stopping = True
            self._wake(self._parked)

    def join(self, timeout: float) -> bool:
        """Wait for the end of all (seconds at most); return whether it came."""
        deadline = monotonic() + timeout
        for thread in self._all:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._all)

    def _work(self) -> None:
        try:
            while (attempt := self._first() or self._wait()) is not None:
                started = self._started()
                self._run(attempt)
                self._ended(started)
        finally:
            self._on_exit()

    def _wait(self) -> Attempt | None:
        """Take the first attempt, once there is one; None is the end."""
        while True:
            with self._lock:
                if attempt := self._first():
                    return attempt
                if self._stopping:
                    return None
                self._parked += 1
            self._wakes.get()

    def _wake(self, most: int) -> None:
        """Let parked threads look again; under the lock, so that none parks between."""
        for _ in range(min(most, self._parked)):
            self._parked -= 1
            self._wakes.put(None)
