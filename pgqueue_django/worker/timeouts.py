"""Time limits of handlers: by an exception in their thread, or by giving them up."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Lock, get_ident, get_native_id
from time import monotonic
from typing import Final, ParamSpec, TypeVar

from pgqueue_django.attempts import Attempt
from pgqueue_django.exceptions import AttemptTimedOut
from pgqueue_django.worker.board import Board

P = ParamSpec("P")
T = TypeVar("T")

GRACE: Final = 2.0
"""How much longer than its limit a handler may take to see that it is over (seconds):
code that cleans up may do so, code that waits in C is given up."""


class _Running:
    __slots__ = ("attempt", "deadline", "fired", "place", "reason", "thread")

    def __init__(self, attempt: Attempt, thread: int | None) -> None:
        seconds = attempt.timeout_seconds
        self.attempt = attempt
        self.deadline = inf if seconds is None else monotonic() + seconds
        self.thread = thread
        self.fired = False
        self.reason: type[BaseException] = AttemptTimedOut
        self.place: int | None = None

    def fire(self) -> None:
        """Raise in its thread, if it has one of its own, and that but once."""
        if self.thread is not None and not self.fired:
            self.fired = True
            _raise_in(self.thread, self.reason)


class TimeLimits:
    """Handlers that run under a limit.

    ``enforce`` and ``give_up`` are to be called now and then.

    Args:
        board: Where a supervisor sees the limits, and that this process runs.
    """

    def __init__(self, board: Board | None = None) -> None:
        self._board = board
        self._lock = Lock()
        self._running: set[_Running] = set()
        self._given_up: set[tuple[int, str]] = set()

    def call(
        self,
        attempt: Attempt,
        function: Callable[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function that may take as long as the attempt says; None is for ever.

        Raises:
            AttemptTimedOut: It took longer. Code that waits in C sees it only when it
                comes back to Python.
            BaseException: The reason of an interrupt; or what the function raises.
        """
        running = self._begin(attempt, get_ident())
        # No context manager: the exception could arrive in the middle of its exit.
        try:
            try:
                return function(*args, **kwargs)
            finally:
                self._end(running)
        finally:
            # It arrives but once: if it broke off the first end, none breaks this one.
            if running in self._running:
                self._end(running)

    @contextmanager
    def watching(self, attempt: Attempt) -> Iterator[Callable[[], None]]:
        """Watch what ends itself in time, unless it is stuck.

        Yields:
            To be called when it was told to end now, before its time.
        """
        running = self._begin(attempt, None)

        def end_now() -> None:
            running.deadline = min(running.deadline, monotonic())

        try:
            yield end_now
        finally:
            self._end(running)

    def enforce(self) -> None:
        """Raise in each thread whose call is past its limit, once."""
        if self._board:
            self._board.beat()
        now = monotonic()
        with self._lock:
            for running in self._running:
                if running.deadline <= now:
                    running.fire()

    def interrupt(self, attempt: Attempt, reason: type[BaseException]) -> bool:
        """Let the limit of a call be over now, for another reason than its time.

        Returns:
            Whether it was running in a thread of its own, and was not told before.
        """
        with self._lock:
            for running in self._running:
                if running.attempt.key != attempt.key or running.fired:
                    continue
                running.deadline = min(running.deadline, monotonic())
                running.reason = reason
                running.fire()
                return running.fired
        return False

    def give_up(self) -> list[Attempt]:
        """Return the attempts that have not ended within the grace, each once.

        From then on ``gave_up`` tells their threads that nobody waits for them.
        """
        before = monotonic() - GRACE
        with self._lock:
            stuck = [
                running.attempt
                for running in self._running
                if running.deadline <= before
                and running.attempt.key not in self._given_up
            ]
            self._given_up.update(attempt.key for attempt in stuck)
        return stuck

    def gave_up(self, attempt: Attempt) -> bool:
        """Tell whether an attempt, whose call has ended, was given up before."""
        return attempt.key in self._given_up

    def _begin(self, attempt: Attempt, thread: int | None) -> _Running:
        running = _Running(attempt, thread)
        with self._lock:
            self._running.add(running)
            if self._board and running.deadline < inf:
                native = get_native_id() if thread else 0
                running.place = self._board.put_up(attempt, running.deadline, native)
        return running

    def _end(self, running: _Running) -> None:
        # Under the lock nothing new is raised in this thread; what was raised but has
        # not arrived yet is taken back, or it would hit whatever runs here next.
        with self._lock:
            # First, as an end that is broken off here is begun again.
            if self._board and running.place is not None:
                self._board.take_down(running.place)
            self._running.discard(running)
            if running.fired and running.thread is not None:
                _raise_in(running.thread, None)
                raise running.reason


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error else None
    )
