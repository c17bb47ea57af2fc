"""What pools of both kinds have in common: attempts that wait for a slot, and run."""

from collections import deque
from collections.abc import Callable
from threading import Lock
from time import monotonic

from pgqueue_django.attempts import Attempt
from pgqueue_django.worker.prefetch import Prefetch

# Jobs that have waited for so long while none could start are given back (seconds).
_STALLED_AFTER = 0.2


class Slots:
    """Counts the attempts of one pool; for use by several threads.

    Args:
        size: How many run at the same time.
        on_room: Called when there is room for more.
    """

    def __init__(self, size: int, on_room: Callable[[], None]) -> None:
        self.size = size
        self._on_room = on_room
        self._waiting: deque[Attempt] = deque()
        self._lock = Lock()
        self._occupied = 0
        self._ran = 0
        self._given_up = 0
        self._prefetch = Prefetch(size)
        self._last_start = 0.0

    @property
    def room(self) -> int:
        """How many more attempts to take now.

        While jobs are held ahead there is none until half of them have started, so
        that claims stay few and large.
        """
        ahead = self._prefetch.size
        if self._occupied - self.size > ahead // 2:
            return 0
        return max(0, self.size + ahead - self._occupied)

    @property
    def room_is_near(self) -> bool:
        """Whether there will be room in a moment, as the jobs here are short."""
        return self._prefetch.size > 0

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing runs but what was given up."""
        return self._occupied == self._given_up

    @property
    def running(self) -> int:
        """How many attempts slots are busy with."""
        return min(self._occupied, self.size)

    @property
    def taken(self) -> int:
        """How many attempts have run, run, or wait; not those that were taken back."""
        with self._lock:
            return self._ran + self._occupied

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

    def _add(self, attempts: list[Attempt]) -> None:
        """Let attempts wait; under the lock."""
        self._last_start = monotonic()
        self._occupied += len(attempts)
        self._waiting.extend(attempts)

    def _first(self) -> Attempt | None:
        """Take the first attempt that waits, if there is one."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _started(self) -> float:
        """Note the start of an attempt; return its instant (monotonic)."""
        self._last_start = monotonic()
        return self._last_start

    def _ended(self, started: float) -> None:
        """Note the end of an attempt."""
        self._prefetch.ran(monotonic() - started)
        with self._lock:
            self._occupied -= 1
            self._ran += 1
        if self.room:
            self._on_room()
