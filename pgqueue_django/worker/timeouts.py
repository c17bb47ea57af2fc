"""Time limits of synchronous handlers, by an exception raised in their thread."""

import ctypes
from collections.abc import Callable
from threading import Lock, get_ident
from time import monotonic
from typing import ParamSpec, TypeVar

from pgqueue_django.exceptions import AttemptTimedOut

P = ParamSpec("P")
T = TypeVar("T")


class _Running:
    __slots__ = ("deadline", "fired", "thread")

    def __init__(self, seconds: float) -> None:
        self.thread = get_ident()
        self.deadline = monotonic() + seconds
        self.fired = False


class TimeLimits:
    """Calls that run under a limit; ``enforce`` is to be called now and then."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[_Running] = set()

    def call(
        self,
        seconds: float | None,
        function: Callable[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function that may take so long; None is for ever.

        Raises:
            AttemptTimedOut: It took longer. Code that waits in C sees it only when it
                comes back to Python.
        """
        if seconds is None:
            return function(*args, **kwargs)
        running = _Running(seconds)
        with self._lock:
            self._running.add(running)
        # No context manager: the exception could arrive in the middle of its exit.
        try:
            return function(*args, **kwargs)
        finally:
            self._end(running)

    def enforce(self) -> None:
        """Raise in each thread whose call is past its limit, once."""
        now = monotonic()
        with self._lock:
            for running in [r for r in self._running if r.deadline <= now]:
                self._running.discard(running)
                running.fired = True
                _raise_in(running.thread, AttemptTimedOut)

    def _end(self, running: _Running) -> None:
        # Under the lock nothing new is raised in this thread; what was raised but has
        # not arrived yet is taken back, or it would hit whatever runs here next.
        with self._lock:
            self._running.discard(running)
            if running.fired:
                _raise_in(running.thread, None)
                raise AttemptTimedOut


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error else None
    )
