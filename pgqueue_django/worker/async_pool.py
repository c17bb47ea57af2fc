"""One event loop that runs async handlers, in a thread of its own."""

import asyncio
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from sys import _current_frames
from threading import Thread
from time import monotonic
from traceback import extract_stack
from typing import Any, Final, NamedTuple

from pgqueue_django.attempts import Attempt
from pgqueue_django.worker.slots import Slots

# A loop that does not answer for so long is blocked (seconds).
_BLOCKED_AFTER: Final = 1.0


class Blocked(NamedTuple):
    """Who keeps the loop from running others: the attempt, if it is one, and where."""

    attempt: Attempt | None
    where: str


class AsyncPool(Slots):
    """Runs up to so many attempts at once; its thread starts with the first of them.

    Args:
        slots: How many.
        run: Runs one attempt and hands its outcome over; never raises.
        on_room: Called when there is room for more.
        on_exit: Called in the loop's thread at its end, if there was one.
    """

    def __init__(
        self,
        slots: int,
        run: Callable[[Attempt], Coroutine[Any, Any, None]],
        on_room: Callable[[], None],
        on_exit: Callable[[], None],
    ) -> None:
        super().__init__(slots, on_room)
        self._run = run
        self._on_exit = on_exit
        # Nothing of one attempt's context may reach the next one.
        self._context = copy_context()
        self._loop: AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._running: dict[Task[None], Attempt] = {}
        self._called = False
        self._stopping = False
        self._failed = False
        self._asked: float | None = None
        self._told = False

    @property
    def whole(self) -> bool:
        """Whether the thread runs, if there is one."""
        return self._thread is None or (self._thread.is_alive() and not self._failed)

    def submit(self, attempts: list[Attempt]) -> None:
        """Run attempts, in order, as soon as slots are free."""
        with self._lock:
            self._add(attempts)
            loop = self._loop or self._start()
        # One call for a batch. After the flag is cleared the loop looks at all that
        # waits, so what came before needs no call of its own.
        if not self._called:
            self._called = True
            loop.call_soon_threadsafe(self._fill)

    def stop(self) -> None:
        """Cancel what runs, and let the thread end."""
        self._stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # It is closed already.
                self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end (seconds at most); return whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def look(self) -> Blocked | None:
        """Ask the loop for a sign of life; to be called now and then.

        Returns:
            What has blocked it for a while, once for each time.
        """
        now = monotonic()
        if self._loop is None or not self._running or self._stopping:
            return None
        if self._asked is None:
            self._asked = now
            self._loop.call_soon_threadsafe(self._answer)
            return None
        if self._told or now - self._asked < _BLOCKED_AFTER:
            return None
        self._told = True
        return self._blocked(self._loop)

    # --- in the loop's thread ---------------------------------------------------------

    def _start(self) -> AbstractEventLoop:
        loop = asyncio.new_event_loop()
        thread = Thread(
            target=self._serve, args=(loop,), name="pgqueue-async", daemon=True
        )
        thread.start()
        # Not before it is alive, or it would be taken for one that has ended.
        self._loop, self._thread = loop, thread
        return loop

    def _serve(self, loop: AbstractEventLoop) -> None:
        try:
            # Its end cancels the tasks, and ends generators and the default executor.
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.get_loop()
                while not self._stopping:
                    # Of a task that a handler has made: it goes through the loop.
                    with suppress(SystemExit, KeyboardInterrupt):
                        loop.run_forever()
        finally:
            self._on_exit()

    def _fill(self) -> None:
        self._called = False
        while len(self._running) < self.size and (attempt := self._first()):
            task = asyncio.get_running_loop().create_task(
                self._attend(attempt), context=self._context.copy()
            )
            self._running[task] = attempt
            task.add_done_callback(self._done)

    async def _attend(self, attempt: Attempt) -> None:
        started = self._started()
        try:
            await self._run(attempt)
        except Exception:
            self._failed = True
            raise
        finally:
            self._ended(started)

    def _done(self, task: Task[None]) -> None:
        del self._running[task]
        if self._waiting and not self._stopping:
            self._fill()

    def _answer(self) -> None:
        self._asked = None
        self._told = False

    def _blocked(self, loop: AbstractEventLoop) -> Blocked:
        task = asyncio.current_task(loop)
        attempt = None if task is None else self._running.get(task)
        thread = self._thread.ident if self._thread else None
        frame = _current_frames().get(thread or 0)
        last = extract_stack(frame, limit=1)[-1] if frame else None
        return Blocked(attempt, f"{last.filename}:{last.lineno}" if last else "?")
