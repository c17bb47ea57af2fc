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
    __slots__ = ("attempt", "deadline", "fired", "place", "thread")

    def __init__(self, attempt: Attempt, seconds: float, thread: int | None) -> None:
        self.attempt = attempt
        self.deadline = monotonic() + seconds
        self.thread = thread
        self.fired = False
        self.place: int | None = None


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
        # By id and token: all attempts of one claim share its token.
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
        """
        if attempt.timeout_seconds is None:
            return function(*args, **kwargs)
        running = self._begin(attempt, attempt.timeout_seconds, get_ident())
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
        seconds = attempt.timeout_seconds
        running = self._begin(attempt, inf if seconds is None else seconds, None)

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
                if (
                    running.thread is not None
                    and not running.fired
                    and running.deadline <= now
                ):
                    running.fired = True
                    _raise_in(running.thread, AttemptTimedOut)

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
                and _key(running.attempt) not in self._given_up
            ]
            self._given_up.update(map(_key, stuck))
        return stuck

    def gave_up(self, attempt: Attempt) -> bool:
        """Tell whether an attempt, whose call has ended, was given up before."""
        return _key(attempt) in self._given_up

    def _begin(self, attempt: Attempt, seconds: float, thread: int | None) -> _Running:
        running = _Running(attempt, seconds, thread)
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
                raise AttemptTimedOut


def _key(attempt: Attempt) -> tuple[int, str]:
    return attempt.id, attempt.token


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error else None
    )
