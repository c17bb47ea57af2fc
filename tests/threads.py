"""Threads that start at the same instant and give back what they found."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Barrier, Thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from django.db import connections

A = TypeVar("A")
R = TypeVar("R")

# Seconds: far beyond what any of them takes, so that a hang fails by its name.
_TIMEOUT = 60.0


class Started(Generic[R]):
    """One call in a thread of its own, whose Django connections are closed after it."""

    def __init__(self, call: Callable[..., R], *args: Any, **kwargs: Any) -> None:
        self._future: Future[R] = Future()
        self._thread = Thread(
            target=self._run, args=(call, args, kwargs), name="test", daemon=True
        )
        self._thread.start()

    def result(self) -> R:
        """Return what the call returned, or raise what it raised."""
        return self._future.result(timeout=_TIMEOUT)

    def done(self) -> bool:
        """Tell whether the call is over."""
        return self._future.done()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.join(_TIMEOUT)

    def _run(
        self, call: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        try:
            self._future.set_result(call(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._future.set_exception(error)
        finally:
            connections.close_all()


def together(call: Callable[[A], R], arguments: Iterable[A]) -> list[R]:
    """Call a function in a thread an argument, all at the same instant.

    Returns:
        The results in the order of the arguments.

    Raises:
        BaseException: What the first thread that failed raised.
    """
    given = list(arguments)
    barrier = Barrier(len(given))

    def at_once(argument: A) -> R:
        barrier.wait(_TIMEOUT)
        return call(argument)

    threads = [Started(at_once, argument) for argument in given]
    return [thread.result() for thread in threads]
