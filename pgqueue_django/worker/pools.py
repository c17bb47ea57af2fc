"""Threads that run handlers."""

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic

from pgqueue_django.attempts import Attempt
from pgqueue_django.worker.prefetch import Prefetch

# Jobs that have waited for so long while none could start are given back (seconds).
_STALLED_AFTER = 0.2


class ThreadPool:
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
        self.threads = threads
        self._run = run
        self._on_room = on_room
        self._on_exit = on_exit
        self._waiting: deque[Attempt] = deque()
        self._lock = Lock()
        self._parked = 0
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        self._occupied = 0
        self._ran = 0
        self._given_up = 0
        self._prefetch = Prefetch(threads)
        self._last_start = 0.0
        self._all = [
            Thread(target=self._work, name=f"pgqueue-handler-{n}", daemon=True)
            for n in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._all:
            thread.start()

    @property
    def room(self) -> int:
        """How many more attempts to take now.

        While jobs are held ahead there is none until half of them have started, so
        that claims stay few and large.
        """
        ahead = self._prefetch.size
        if self._occupied - self.threads > ahead // 2:
            return 0
        return max(0, self.threads + ahead - self._occupied)

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing runs but what was given up."""
        return self._occupied == self._given_up

    @property
    def running(self) -> int:
        """How many attempts threads are busy with."""
        return min(self._occupied, self.threads)

    @property
    def taken(self) -> int:
        """How many attempts have run, run, or wait; not those that were taken back."""
        with self._lock:
            return self._ran + self._occupied

    @property
    def whole(self) -> bool:
        """Whether all threads run."""
        return all(thread.is_alive() for thread in self._all)

    def submit(self, attempts: list[Attempt]) -> None:
        """Run attempts, in order, as soon as threads are free."""
        self._last_start = monotonic()
        with self._lock:
            self._occupied += len(attempts)
            self._waiting.extend(attempts)
            self._wake(len(attempts))

    def take_back_stalled(self) -> list[Attempt]:
        """Return attempts that wait for jobs that turned out slow."""
        if not self._waiting or monotonic() - self._last_start < _STALLED_AFTER:
            return []
        self._prefetch.stalled()
        return self.take_back()

    def take_back(self) -> list[Attempt]:
        """Return the attempts that have not started; they will not."""
        unstarted: list[Attempt] = []
        while (attempt := self._first()) is not None:
            unstarted.append(attempt)
        with self._lock:
            self._occupied -= len(unstarted)
        return unstarted

    def give_up(self, attempts: int) -> None:
        """Wait no more for so many of those that run.

        One that ends after all is given up by -1.
        """
        with self._lock:
            self._given_up += attempts

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
                started = self._last_start = monotonic()
                self._run(attempt)
                self._prefetch.ran(monotonic() - started)
                with self._lock:
                    self._occupied -= 1
                    self._ran += 1
                if self.room:
                    self._on_room()
        finally:
            self._on_exit()

    def _first(self) -> Attempt | None:
        """Take the first attempt that waits, if there is one."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

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
