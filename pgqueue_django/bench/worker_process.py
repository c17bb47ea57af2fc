"""One worker of a bench: a plain worker, with a stop-watch at its claims."""

import sys
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from threading import Lock, Thread
from time import monotonic
from typing import Any

from pgqueue_django.bench.processes import end_with
from pgqueue_django.managers.jobs import JobManager
from pgqueue_django.worker import Worker

_Claim = tuple[float, float, int]


class _StopWatch:
    """Notes how long claims take, in the place of the manager's own method."""

    def __init__(self, *, waiting: bool) -> None:
        self._changing = Lock()
        self._taken: list[_Claim] = []
        self._more = {"for_update_wait": True} if waiting else {}

    def install(self) -> None:
        """Time all claims of this process, as long as it lives."""
        claim: Callable[..., Any] = JobManager.claim

        def timed(manager: JobManager, *args: Any, **kwargs: Any) -> Any:
            begun = monotonic()
            attempts = claim(manager, *args, **kwargs, **self._more)
            ended = monotonic()
            if attempts:
                with self._changing:
                    self._taken.append((ended, ended - begun, len(attempts)))
            return attempts

        setattr(JobManager, claim.__name__, timed)

    def take(self) -> list[_Claim]:
        """Return what was noted, and forget it."""
        with self._changing:
            taken, self._taken = self._taken, []
        return taken


def main(pipe: Pipe, queues: list[str], threads: int, claim: str) -> None:
    """Be a worker until the other end of the pipe is gone.

    Args:
        pipe: ``"claims"`` is answered with a list of (end, seconds, jobs).
        queues: What to serve.
        threads: Handlers at the same time.
        claim: ``skip-locked`` or ``for-update``.
    """
    watch = _StopWatch(waiting=claim == "for-update")
    watch.install()
    worker = Worker(queues, threads=threads, shutdown_timeout=1.0)
    Thread(target=_obey, args=(pipe, worker, watch), daemon=True).start()
    sys.exit(worker.run())


def _obey(pipe: Pipe, worker: Worker, watch: _StopWatch) -> None:
    try:
        while pipe.recv() == "claims":
            pipe.send(watch.take())
    except (EOFError, OSError):
        worker.stop()
        end_with(pipe)
