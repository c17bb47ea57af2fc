"""Where attempts run: sync handlers on threads, async ones on the event loop."""

from math import inf
from time import monotonic
from typing import Final, NamedTuple

from pgqueue_django.attempts import Attempt
from pgqueue_django.registry import registry
from pgqueue_django.worker.async_pool import AsyncPool
from pgqueue_django.worker.executor import is_async
from pgqueue_django.worker.slots import Slots
from pgqueue_django.worker.thread_pool import ThreadPool


class Room(NamedTuple):
    """How many jobs to take, and of which tasks; None is all."""

    jobs: int
    tasks: tuple[str, ...] | None = None


NO_ROOM: Final = Room(0)


class Pools:
    """Both pools of one worker.

    Args:
        threads: For sync handlers.
        loop: For async handlers.
    """

    def __init__(self, threads: ThreadPool, loop: AsyncPool) -> None:
        self.threads = threads
        self.loop = loop
        self._all = (threads, loop)
        self._async_share = 0.0

    def start(self) -> None:
        """Start the threads."""
        self.threads.start()

    @property
    def room(self) -> Room:
        """What to take now.

        Nobody knows which kinds a claim will bring: so many that, by the last claims,
        neither pool gets more than it has room for. While one of them has none, jobs of
        the other kind only; nothing, if it is a matter of a moment.
        """
        for_threads, for_loop = self.threads.room, self.loop.room
        if not for_threads and not for_loop:
            return NO_ROOM
        if not for_threads:
            return _only(for_loop, self.threads, of_async=True)
        if not for_loop:
            return _only(for_threads, self.loop, of_async=False)
        share = self._async_share
        by_threads = for_threads / (1 - share) if share < 1 else inf
        by_loop = for_loop / share if share else inf
        return Room(int(min(by_threads, by_loop)))

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

    def submit(self, attempts: list[Attempt], *, mixed: bool) -> None:
        """Run attempts, in order, as soon as there are slots for them.

        Args:
            attempts: What to run.
            mixed: Whether they came as the queue has them, of all tasks.
        """
        names = {attempt.task for attempt in attempts}
        of_async = {name for name in names if is_async(name)}
        for_loop = [attempt for attempt in attempts if attempt.task in of_async]
        for_threads = [attempt for attempt in attempts if attempt.task not in of_async]
        if mixed:
            share = len(for_loop) / len(attempts)
            self._async_share += (share - self._async_share) / 2
        if for_loop:
            self.loop.submit(for_loop)
        if for_threads:
            self.threads.submit(for_threads)

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
        return self.loop if is_async(attempt.task) else self.threads


def _only(jobs: int, other: Slots, *, of_async: bool) -> Room:
    """Return room for one kind only, while the pool of the other has none."""
    if other.room_is_near:
        return NO_ROOM
    names = registry.names()
    tasks = tuple(name for name in names if is_async(name) == of_async)
    return Room(jobs, tasks) if tasks else NO_ROOM
