"""Where attempts run: sync handlers on threads, async ones on the event loop."""

from collections.abc import Callable
from math import inf
from time import monotonic

from pgqueue_django.attempts import Attempt
from pgqueue_django.worker.async_pool import AsyncPool
from pgqueue_django.worker.thread_pool import ThreadPool


class Pools:
    """Both pools of one worker.

    Args:
        threads: For sync handlers.
        loop: For async handlers.
        is_async: Tells whether an attempt's handler is async.
    """

    def __init__(
        self,
        threads: ThreadPool,
        loop: AsyncPool,
        is_async: Callable[[Attempt], bool],
    ) -> None:
        self.threads = threads
        self.loop = loop
        self._is_async = is_async
        self._all = (threads, loop)
        self._async_share = 0.0

    def start(self) -> None:
        """Start the threads."""
        self.threads.start()

    @property
    def room(self) -> int:
        """How many more attempts to take now, of a mixture like that of the last ones.

        Nobody knows which kinds a claim will bring: so many that, by the last claims,
        neither pool gets more than it has room for.
        """
        share = self._async_share
        for_threads = self.threads.room / (1 - share) if share < 1 else inf
        for_loop = self.loop.room / share if share else inf
        return int(min(for_threads, for_loop))

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing runs but what was given up."""
        return all(pool.idle for pool in self._all)

    @property
    def running(self) -> int:
        """How many attempts run."""
        return sum(pool.running for pool in self._all)

    @property
    def taken(self) -> int:
        """How many attempts have run, run, or wait; not those that were taken back."""
        return sum(pool.taken for pool in self._all)

    @property
    def whole(self) -> bool:
        """Whether all threads run."""
        return all(pool.whole for pool in self._all)

    def submit(self, attempts: list[Attempt]) -> None:
        """Run attempts, in order, as soon as there are slots for them."""
        for_loop = [attempt for attempt in attempts if self._is_async(attempt)]
        self._async_share += (len(for_loop) / len(attempts) - self._async_share) / 2
        if for_loop:
            self.loop.submit(for_loop)
        if len(for_loop) < len(attempts):
            self.threads.submit(
                [attempt for attempt in attempts if not self._is_async(attempt)]
            )

    def take_back_stalled(self) -> list[Attempt]:
        """Return attempts that wait for jobs that turned out slow."""
        return [one for pool in self._all for one in pool.take_back_stalled()]

    def take_back(self) -> list[Attempt]:
        """Return the attempts that have not started; they will not."""
        return [one for pool in self._all for one in pool.take_back()]

    def give_up(self, attempt: Attempt) -> None:
        """Wait no more for one that runs."""
        self._of(attempt).give_up(1)

    def came_back(self, attempt: Attempt) -> None:
        """Note that one that was given up has ended after all."""
        self._of(attempt).give_up(-1)

    def stop(self) -> None:
        """Let each thread end after the attempt that it runs; cancel async ones."""
        for pool in self._all:
            pool.stop()

    def join(self, timeout: float) -> bool:
        """Wait for the end of all (seconds at most); return whether it came."""
        deadline = monotonic() + timeout
        ended = [pool.join(max(0.0, deadline - monotonic())) for pool in self._all]
        return all(ended)

    def _of(self, attempt: Attempt) -> ThreadPool | AsyncPool:
        return self.loop if self._is_async(attempt) else self.threads
