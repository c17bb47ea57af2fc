"""What an async handler runs in, until it ends or is broken off."""

import asyncio
from collections.abc import Callable
from typing import Any

from pgqueue_django.attempts import Attempt
from pgqueue_django.exceptions import AttemptTimedOut
from pgqueue_django.worker.timeouts import TimeLimits


class Scope:
    """One attempt of an async handler; to be made on the loop that runs it.

    An interrupt is a timeout that comes at once, with another reason.

    Args:
        attempt: The attempt, with its timeout.
        time_limits: Where it is watched, in case it does not end.
    """

    def __init__(self, attempt: Attempt, time_limits: TimeLimits) -> None:
        self._attempt = attempt
        self._time_limits = time_limits
        self._loop = asyncio.get_running_loop()
        self._break_off: Callable[[], None] | None = None
        self._interrupted = False
        self.reason: type[BaseException] = AttemptTimedOut
        """What is raised instead of the handler's own end, if it is broken off."""

    async def call(
        self, handler: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Return what the handler returns.

        Raises:
            AttemptTimedOut: It took longer than the attempt may, even if it made
                nothing of the cancellation.
            BaseException: Another reason to break it off; or what the handler raises.
        """
        limit = asyncio.timeout(self._attempt.timeout_seconds)
        try:
            with self._time_limits.watching(self._attempt) as end_now:
                async with limit:
                    self._may_break_off(limit, end_now)
                    value = await handler(*args, **kwargs)
        except BaseException as error:
            if limit.expired():
                raise self.reason from error
            raise
        finally:
            self._break_off = None
        if limit.expired():
            raise self.reason
        return value

    def interrupt(self, reason: type[BaseException]) -> None:
        """Break the handler off, from any thread; returns at once."""
        self._loop.call_soon_threadsafe(self._interrupt, reason)

    def _may_break_off(
        self, limit: asyncio.Timeout, end_now: Callable[[], None]
    ) -> None:
        def break_off() -> None:
            end_now()
            limit.reschedule(self._loop.time())

        self._break_off = break_off
        if self._interrupted:
            break_off()

    def _interrupt(self, reason: type[BaseException]) -> None:
        if self._interrupted:
            return
        self._interrupted = True
        self.reason = reason
        if self._break_off:
            self._break_off()
