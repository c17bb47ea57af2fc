"""Threads for what async handlers call synchronously: Django's ORM above all."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from pgqueue_django.db.handler_connections import (
    HandlerConnections,
    close_handler_connections,
    is_in_transaction,
)

P = ParamSpec("P")
T = TypeVar("T")


class _Call(NamedTuple):
    future: Future[Any]
    function: Callable[[], Any]

    def run(self) -> Callable[[], object]:
        """Call the function; return what tells its end to whoever waits for it."""
        if not self.future.set_running_or_notify_cancel():
            return bool
        try:
            value = self.function()
        except BaseException as error:  # noqa: BLE001 - for whoever waits for it
            return partial(self.future.set_exception, error)
        return partial(self.future.set_result, value)


class _Once(_Call):
    def serve(self) -> None:
        with HandlerConnections():
            tell = self.run()
        tell()


class SyncCalls(Executor):
    """A few threads, and so a few connections, shared by many async handlers.

    Each attempt has a line of its own, whose calls run one at a time. What is given to
    ``submit`` has none. The threads start when they are needed.

    Args:
        threads: How many at the most.
        name: The beginning of their names.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._lock = Lock()
        self._lines: SimpleQueue[Line | _Once | None] = SimpleQueue()
        self._all: list[Thread] = []
        self._idle = 0

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Call a function in the next free thread."""
        once = _Once(Future(), partial(function, *args, **kwargs))
        self.serve(once)
        return once.future

    def serve(self, line: "Line | _Once") -> None:
        """Let the next free thread serve a line."""
        with self._lock:
            self._lines.put(line)
            if self._idle:
                self._idle -= 1
            elif len(self._all) < self._most:
                name = f"{self._name}-{len(self._all)}"
                thread = Thread(target=self._work, name=name, daemon=True)
                thread.start()
                self._all.append(thread)

    def stop(self) -> None:
        """Let each thread end after the line that it serves."""
        for _ in self._all:
            self._lines.put(None)

    def _work(self) -> None:
        try:
            while (line := self._next()) is not None:
                line.serve()
        finally:
            close_handler_connections()

    def _next(self) -> "Line | _Once | None":
        with self._lock:
            try:
                return self._lines.get_nowait()
            except Empty:
                self._idle += 1
        return self._lines.get()


class Line(Executor):
    """The synchronous calls of one attempt.

    Between two calls the attempt has no thread, so that one that sleeps keeps none from
    others: each call finds connections as clean as a job does. While it has a
    transaction open, it keeps its thread.

    Args:
        threads: What serves it.
    """

    def __init__(self, threads: SyncCalls) -> None:
        self.left_open: list[str] = []
        """Aliases on which the attempt left a transaction open; known at its end."""
        self._threads = threads
        self._lock = Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._undone = 0
        self._keeps_thread = False
        self._ended = False
        self._cleaned: Future[None] | None = None
        self._context = ThreadSensitiveContext()

    def open(self) -> None:
        """Take the calls of ``sync_to_async`` in this context."""
        SyncToAsync.context_to_thread_executor[self._context] = self
        SyncToAsync.thread_sensitive_context.set(self._context)

    def close(self) -> Future[None] | None:
        """Take no more calls.

        Returns:
            What is done once an open transaction is rolled back; None is none open.
        """
        with self._lock:
            self._ended = True
            if not self._keeps_thread:
                return None
            self._cleaned = Future()
            self._calls.put(None)
            return self._cleaned

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Call a function in a thread, after those that were given before."""
        future: Future[T] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError("the attempt that this call is of has ended")
            self._calls.put(_Call(future, partial(function, *args, **kwargs)))
            self._undone += 1
            is_first = self._undone == 1 and not self._keeps_thread
        if is_first:
            self._threads.serve(self)
        return future

    def serve(self) -> None:
        """Do one call, and those after it in its transaction; in a thread."""
        goes_on = False
        with HandlerConnections() as connections:
            while (call := self._calls.get()) is not None:
                tell = call.run()
                keeps_thread, goes_on = self._done()
                tell()
                if not keeps_thread:
                    break
        if call is None and self._cleaned:
            self.left_open = connections.left_open
            self._cleaned.set_result(None)
        elif goes_on:
            self._threads.serve(self)

    def _done(self) -> tuple[bool, bool]:
        """Note the end of a call, before it is told.

        Returns:
            Whether the next call needs this thread, and if not, whether there is one.
        """
        is_open = is_in_transaction()
        with self._lock:
            self._undone -= 1
            # Whoever has ended it while it was kept has sent the end of it.
            if not self._ended:
                self._keeps_thread = is_open
            return self._keeps_thread, not self._keeps_thread and self._undone > 0
